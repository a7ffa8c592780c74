package main

import (
	"io"
	"net/http"
	"os"
)

// peerFile is the route of the bare handlers of files: ?path=PATH.
const peerFile = "/file"

// serveFiles adds what the least costs that a file can go up and down for.
func serveFiles(mux *http.ServeMux) {
	mux.HandleFunc("PUT "+peerFile, func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Create(r.FormValue("path"))
		if err == nil {
			_, err = io.Copy(f, r.Body)
			if closeErr := f.Close(); err == nil {
				err = closeErr
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET "+peerFile, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, r.FormValue("path")) })
}
