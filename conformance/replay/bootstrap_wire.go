package replay

import (
	"encoding/json"
	"fmt"
	"strings"

	"microvms/agentd/api"
	"microvms/model/bootstrap"
)

// The model's symbols as bytes on the wire. The two tokens differ in their last
// byte only and have one length, so that a comparison that stops early, or looks
// at the length alone, is noticed.
const (
	harnessToken  = "launch-token-0123456789-H"
	attackerToken = "launch-token-0123456789-A"
	envName       = "LAUNCH"
	hookCap       = 32768 // bytes of a hook's body
)

func tokenBytes(t bootstrap.Token) string {
	if t == bootstrap.Attacker {
		return attackerToken
	}
	return harnessToken
}

// bearers returns the Authorization values that stand for one bearer of the
// model. The driver goes through them in turn.
func bearers(presented, installed bootstrap.Token) []string {
	switch {
	case presented == bootstrap.NoToken:
		return []string{"", "Bearer", "Basic " + harnessToken, "Bearer  " + harnessToken, harnessToken, "Bearer\t" + harnessToken}
	case presented == bootstrap.Harness:
		return []string{"Bearer " + harnessToken, "bearer " + harnessToken, "BEARER " + harnessToken}
	case installed == bootstrap.Attacker:
		return []string{"Bearer " + attackerToken}
	}
	return []string{
		"Bearer " + attackerToken, "Bearer " + harnessToken + "x", "Bearer " + harnessToken[:len(harnessToken)-1],
		"Bearer " + strings.ToUpper(harnessToken), "Bearer x",
	}
}

// envelope wraps a payload as the platform does.
func envelope(payload string) string {
	body, err := json.Marshal(api.RunHookEnvelope{RunHookPayload: &payload})
	if err != nil {
		panic("replay: internal error: cannot encode an envelope: " + err.Error())
	}
	return string(body)
}

// malformedBodies are run hooks whose shape is refused. The driver goes through
// them in turn.
var malformedBodies = []string{
	"", "{", "null", "[]", `{"runHookPayload":null}`, `{"RunHookPayload":"{\"agent_token\":\"` + harnessToken + `\"}"}`,
	`{"runHookPayload":{"agent_token":"` + harnessToken + `"}}`,
	envelope("not json"), envelope("[]"), envelope(`{}`), envelope(`{"agent_token":""}`), envelope(`{"agent_token":7}`),
	envelope(`{"agent_token":"` + harnessToken + `","env":[]}`),
	envelope(`{"agent_token":"` + harnessToken + `","env":{"` + envName + `":1}}`),
	envelope(`{"agent_token":"` + harnessToken + `","identity_seed":"AAAA"}`),
	envelope(`{"agent_token":"`+harnessToken+`"}`) + "x",
	envelope(`{"agent_token":"` + harnessToken + `"} trailing`),
}

// hookBody returns the body of a hook request. turn selects among the bodies
// that stand for one payload of the model.
func hookBody(p bootstrap.Payload, turn int) string {
	switch p {
	case bootstrap.NoPayload:
		return "{}"
	case bootstrap.Malformed:
		return malformedBodies[turn%len(malformedBodies)]
	case bootstrap.Oversized:
		return envelope(`{"agent_token":"` + harnessToken + `","pad":"` + strings.Repeat("x", hookCap) + `"}`)
	}
	return envelope(fmt.Sprintf(`{"agent_token":%q,"env":{%q:%q},"later_key":true}`, tokenBytes(p.Token()), envName, p.Env().String()))
}

// startBody starts an exec that prints its environment and nothing else.
func startBody(exec string) string {
	return fmt.Sprintf(`{"exec_id":%q,"command":["/usr/bin/env"]}`, exec)
}

func execName(exec uint8) string { return fmt.Sprintf("exec-%d", exec) }

// sawWord renders the output of such an exec in the model's words: the launch
// environment that the child had, or the raw text when it had anything else.
func sawWord(output string) string {
	if env, ok := strings.CutPrefix(output, envName+"="); ok {
		if env, ok = strings.CutSuffix(env, "\n"); ok && !strings.Contains(env, "\n") {
			return env
		}
	}
	return fmt.Sprintf("%q", output)
}
