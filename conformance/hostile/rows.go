package hostile

import (
	"fmt"
	"slices"
)

// Rows returns the catalogue: every row of the hostile input facts, parts HTTP,
// Exec, Tar upload and tunnel, and A1, which is this project's own.
// The slice and its rows are fresh.
func Rows() []Row {
	return slices.Concat(
		[]Row{authorization(), slowloris(), oversizedHeads(), silentBodies(), expectations(), earlyRefusals(), foreignProtocols()},
		[]Row{timeouts(), paths(), unreadStream(), manyReaders(), offsets()},
		[]Row{programs(), arguments(), directories(), ids(), stubbornProcesses(), floods(), exactBytes()},
		[]Row{killMoments(), stdinWrites(), suspension(), userNames()},
		[]Row{memberNames(), linkThenThrough(), longTargets(), memberTypes(), memberModes(), sameNames()},
		[]Row{contradictions(), hugeHeaders(), badNumbers(), cutArchives(), trailers(), bombs()},
		[]Row{oddNames(), fullDisk(), targets()},
		[]Row{brokenFrames(), oddFrames(), destinations(), halves(), tamperedTunnels(), cutEnds()},
	)
}

// head is the beginning of a request: the request line and a Host.
func head(method, target string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: d\r\n"
}

// bearer is an Authorization line with the right token.
func bearer(p *probe) string { return "Authorization: Bearer " + p.Token + "\r\n" }

// jsonBody is the end of a request: type, length, empty line and body.
func jsonBody(body string) string {
	return fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
