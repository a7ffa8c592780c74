'use strict';
const el = (tag, attrs = {}, ...kids) => {
  const n = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) k === 'class' ? n.className = v : n.setAttribute(k, v);
  for (const k of kids.flat()) n.append(k instanceof Node ? k : document.createTextNode(String(k)));
  return n;
};
const badge = v => el('span', {class: 'badge ' + v}, v);
const num = n => el('td', {class: 'n'}, Number(n || 0).toLocaleString('en'));
const table = (heads, rows) => el('div', {class: 'scroll'}, el('table', {},
  el('thead', {}, el('tr', {}, heads.map(h => el('th', h[0] === '#' ? {class: 'n'} : {}, h.replace('#', ''))))), el('tbody', {}, rows)));
const list = (items, cls) => el('ul', {}, (items || []).map(i => el('li', {class: cls || ''}, i)));
const $ = id => document.getElementById(id);

// A path: numbered steps, each with its action and the fields that it changed.
const drawPath = p => {
  const rows = p.steps.map((s, i) => el('tr', {class: p.loop >= 0 && i >= p.loop ? 'loop' : ''},
    el('td', {class: 'n'}, i), el('td', {}, el('code', {}, s.action || 'initial state')),
    el('td', {}, el('code', {}, (s.changed || []).map(f => f.name + '=' + f.value).join('  ') || 'nothing changes'))));
  const note = p.loop >= 0 ? [el('p', {class: 'soft'}, p.loop >= p.steps.length ? 'The last state then stays for ever.' : `After the last step the behaviour goes on at step ${p.loop}, for ever.`)] : [];
  return el('div', {}, table(['#step', 'action', 'fields changed'], rows), note);
};

// A history: one lane a client, one bar an operation from call to return.
const drawHistory = h => {
  const ns = 'http://www.w3.org/2000/svg', ops = h.operations || [];
  const s = (tag, a, text) => { const n = document.createElementNS(ns, tag); for (const k in a) n.setAttribute(k, a[k]); if (text) n.textContent = text; return n; };
  const end = Math.max(1, ...ops.map(o => Math.max(o.call, o.return))), lanes = 1 + Math.max(0, ...ops.map(o => o.client));
  const W = 1100, lane = 34, x = t => 60 + (W - 70) * t / end, svg = s('svg', {viewBox: `0 0 ${W} ${lanes * lane + 24}`, role: 'img'});
  for (let c = 0; c < lanes; c++) {
    svg.append(s('text', {x: 0, y: c * lane + 21}, 'client ' + c), s('line', {x1: 58, x2: W, y1: (c + 1) * lane, y2: (c + 1) * lane}));
  }
  // Operations that nobody saw return lie behind the others, and their labels show on hover.
  for (const o of [...ops].sort((a, b) => (a.return < 0 ? 0 : 1) - (b.return < 0 ? 0 : 1))) {
    const to = o.return < 0 ? end : o.return, r = s('rect', {class: o.return < 0 ? 'open' : 'op', x: x(o.call), y: o.client * lane + 6, width: Math.max(2, x(to) - x(o.call)), height: 20, rx: 3});
    r.append(s('title', {}, `${o.label} — ${o.call} to ${o.return < 0 ? 'no answer' : o.return} µs`));
    svg.append(r);
    const room = Math.floor((x(to) - x(o.call)) / 6.2);
    if (room > 6 && o.return >= 0) svg.append(s('text', {x: x(o.call) + 3, y: o.client * lane + 20}, o.label.length > room ? o.label.slice(0, room - 1) + '…' : o.label));
  }
  svg.append(s('text', {x: 60, y: lanes * lane + 18}, '0'), s('text', {x: W - 70, y: lanes * lane + 18}, end.toLocaleString('en') + ' µs'));
  return svg;
};

const views = {
  stages() {
    return report.stages.map(s => el('div', {}, el('h2', {}, s.name, ' ', badge(s.verdict)), el('p', {class: 'soft'},
      `${s.seconds.toFixed(1)} s: `, Object.entries(s.counts).sort().map(([k, v]) => `${v.toLocaleString('en')} ${k}`).join(', ') || 'nothing was counted'),
      list(s.problems, 'problem'), list(s.unsure, 'unsure')));
  },
  requirements() {
    const layers = ['model', 'replay', 'history', 'hostile', 'test', 'code', 'fault'];
    return filtered(report.requirements || [], r => [r.id, r.sentence].join(' '), r => r.verdict, r => r.family,
      r => Object.values(r.layers).flat().map(e => e.ref)).map(r => {
      const counts = layers.filter(l => (r.layers[l] || []).length).map(l => `${l} ${r.layers[l].length}`).join(' · ');
      return el('details', {id: r.id}, el('summary', {}, el('span', {class: 'id'}, r.id), badge(r.verdict), ' ', r.sentence, el('div', {class: 'soft'}, counts || 'no evidence')),
        table(['layer', 'what was looked at'], layers.map(l => {
          const refs = r.layers[l] || [], need = (r.required || []).includes(l), waived = (r.waived || {})[l];
          return el('tr', {}, el('td', {}, l, need ? ' (required)' : ''), el('td', {}, waived ? el('div', {class: 'unsure'}, 'waived: ' + waived) : '',
            refs.length ? el('ul', {}, refs.map(e => el('li', {}, el('code', {}, e.ref), e.verdict === 'holds' ? '' : [' ', badge(e.verdict)])))
              : el('span', {class: need && !waived ? 'problem' : 'soft'}, need && !waived ? 'nothing: this layer is required' : '–')));
        })));
    });
  },
  models() {
    return filtered(report.models || [], m => [m.name, m.config, m.deviation, ...m.properties.map(p => p.name)].join(' '),
      m => m.as_expected ? 'holds' : 'violated', () => '', m => [m.name]).map(m => {
      const rows = m.properties.map(p => el('tr', {}, el('td', {}, p.kind), el('td', {}, p.name, p.path && p.path.steps.length ? el('details', {},
        el('summary', {}, `${p.kind.startsWith('sometimes') ? 'shortest example' : 'counterexample'}, ${p.path.steps.length - 1} actions`), drawPath(p.path)) : ''),
        el('td', {}, badge(p.verdict), p.vacuous ? ' vacuous' : ''), el('td', {}, (p.requirements || []).join(', '))));
      // A deviation must violate exactly what is recorded: that is its way to pass.
      const broken = m.properties.filter(p => p.verdict === 'violated').length;
      const mark = m.as_expected && m.deviation ? el('span', {class: 'badge holds'}, `violates ${broken}, as recorded`) : badge(m.as_expected ? 'holds' : 'violated');
      return el('details', {}, el('summary', {}, el('span', {class: 'id'}, m.name + ':' + m.config), ' ', mark, ' ',
        m.deviation ? 'deviation: ' + m.deviation : 'specified', el('div', {class: 'soft'},
          `${m.distinct.toLocaleString('en')} distinct states, depth ${m.depth}, ${m.transitions.toLocaleString('en')} transitions${m.replayed ? ', ' + m.replayed.toLocaleString('en') + ' replayed' : ''}`)),
        table(['kind', 'property', 'verdict', 'requirements'], rows),
        table(['action', '#taken'], Object.entries(m.actions).sort().map(([k, v]) => el('tr', {}, el('td', {}, el('code', {}, k)), num(v)))));
    });
  },
  conformance() {
    const replays = el('div', {}, el('h2', {}, 'Replay of transitions on the real daemon'), table(['configuration', 'target', '#transitions', '#replayed', '#paths', 'skipped by name'],
      (report.replays || []).map(r => el('tr', {}, el('td', {}, r.model + ':' + r.config), el('td', {}, r.target || ''), num(r.transitions), num(r.replayed), num(r.paths),
        el('td', {}, list((r.skips || []).map(k => `${k.transitions} × ${k.action}: ${k.reason}`)), list(r.failures, 'problem'))))));
    const histories = el('div', {}, el('h2', {}, 'Concurrent histories'), table(['kind', '#histories', '#operations', '#overlapping', '#open', '#undecided', 'failures'],
      (report.histories || []).map(h => el('tr', {}, el('td', {}, h.name), num(h.histories), num(h.operations), num(h.overlapping), num(h.open), num(h.undecided), el('td', {}, list(h.failures, 'problem'))))),
      (report.histories || []).flatMap(h => h.samples || []).map(p => el('details', {}, el('summary', {}, p.name, ' ', badge(p.verdict)), drawHistory(p))));
    return [replays, histories];
  },
};

const filtered = (items, text, verdict, family, refs) => {
  const v = $('f-verdict').value, f = $('f-family').value, m = $('f-model').value, t = $('f-text').value.toLowerCase();
  const out = items.filter(i => (!v || verdict(i) === v) && (!f || family(i) === f) && (!m || refs(i).some(r => r === m || r.startsWith(m + ':'))) && (!t || text(i).toLowerCase().includes(t)));
  $('f-count').textContent = `${out.length} of ${items.length}`;
  return out;
};
let current = 'stages';
const show = tab => {
  current = views[tab] ? tab : 'stages';
  for (const b of document.querySelectorAll('#tabs button')) b.setAttribute('aria-selected', b.dataset.tab === current);
  $('filters').hidden = current !== 'requirements' && current !== 'models';
  $('f-family').disabled = current !== 'requirements';
  $('main').replaceChildren(...[views[current]()].flat());
};
$('verdict').textContent = report.verdict;
$('verdict').classList.add(report.verdict);
$('meta').textContent = `commit ${(report.commit || 'unknown').slice(0, 12)} · started ${report.started_at} · ${report.seconds.toFixed(0)} s`;
for (const f of [...new Set((report.requirements || []).map(r => r.family))].sort()) $('f-family').append(el('option', {}, f));
for (const m of [...new Set((report.models || []).map(m => m.name))].sort()) $('f-model').append(el('option', {}, m));
for (const b of document.querySelectorAll('#tabs button')) b.addEventListener('click', () => { location.hash = b.dataset.tab; });
for (const id of ['f-verdict', 'f-family', 'f-model', 'f-text']) $(id).addEventListener('input', () => show(current));
const route = () => show(location.hash.slice(1));
addEventListener('hashchange', route);
route();
