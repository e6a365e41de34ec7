// Pause is the first process of every pod on a real node: it holds the pod's namespaces and does nothing else.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		collectChildren()
	}
}

// collectChildren takes the exit codes of orphans, which a pod with one process namespace leaves to its first process.
func collectChildren() {
	for {
		child, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || child <= 0 {
			return
		}
	}
}
