// Package cost estimates what a MicroVM costs, in a way that cannot claim more
// than is known (client facts, section 12).
//
//   - A [Duration] is measured or projected; there is no third way to make one.
//   - [Dollars] are an exact decimal. They are added to dollars only, come from
//     no float and turn into none.
//   - An [Amount] is [Estimated] or [Unpriced] with a reason. It has no value that
//     one could read as zero by mistake: a type switch has to say which it is.
//   - A [Total] is [Exact] or [AtLeast], which names what it leaves out. [Sum] is
//     the only way to one.
//   - A [RateTable] is [Pinned] or read [FromCatalog], and knows its region,
//     source and retrieval date. Past [StaleAfterDays] every report made from it
//     says so itself.
//
// [Price] prices a [Usage], [Estimate] a [Plan], and [Compare] answers whether
// to keep a VM running or to suspend it. Reports render as text, as one dense
// line and as JSON with the same numbers.
//
// # Exactness
//
// Sums and products are exact; one that were not is an error. Only a quotient is
// ever rounded (seconds of a month do not divide evenly), once per line, half to
// even at 34 significant digits, and a line's quotient is taken last.
//
// The package does no I/O and reads no clock: the day is a parameter. Everything
// in it is safe for concurrent use.
package cost
