package client_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"microvms/client"
)

// held is a source whose first read lasts until it is released.
type held struct {
	reading, release chan struct{}
}

func (h *held) Read([]byte) (int, error) {
	close(h.reading)
	<-h.release
	return 0, io.EOF
}

// A source is the caller's again when the upload returns, also where the daemon
// has refused it while it was being read: until that read is over, the upload is
// not.
func TestUploadGivesItsSourceBack(t *testing.T) {
	t.Attr("requirement", "CLIENT-32")
	for _, status := range []int{http.StatusRequestEntityTooLarge, http.StatusNoContent, 0} {
		synctest.Test(t, func(t *testing.T) {
			src := &held{make(chan struct{}), make(chan struct{})}
			s, err := client.New("http://x", "token", client.WithHTTPClient(&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				go func() { // as net/http does: the body goes on beside the answer
					io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}()
				<-src.reading
				if status == 0 {
					return nil, io.ErrUnexpectedEOF
				}
				return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}}, nil
			})}))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			returned := make(chan error, 1)
			go func() { returned <- s.PutFile(t.Context(), "/f", src, client.PutFileOptions{}) }()
			synctest.Wait()
			select {
			case err := <-returned:
				t.Errorf("status %d: returned (%v) while its source was read", status, err)
			default:
			}
			close(src.release)
			synctest.Wait()
			select {
			case err := <-returned:
				if (err == nil) != (status == http.StatusNoContent) {
					t.Errorf("status %d: %v", status, err)
				}
			default:
				t.Errorf("status %d: has not returned", status)
			}
		})
	}
}
