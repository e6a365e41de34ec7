// Service-forwarder lets the pods of a real node reach the API server at its Service address: it listens there, on the
// network bridge of one cluster only, and passes each connection on. Clusters side by side have the same address, each
// on its own bridge; a socket that is bound to a bridge gets the connections that come in on that one.
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"syscall"
	"time"
)

func main() {
	device := flag.String("device", "", "network interface on which connections come in")
	listen := flag.String("listen", "", "address and port to which pods connect")
	to := flag.String("to", "", "address and port to which connections are passed on")
	health := flag.String("health", "", "address and port that answers while this runs")
	flag.Parse()
	listener, err := listenOn(*device, *listen)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		log.Fatal(http.ListenAndServe(*health, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	}()
	for {
		connection, err := listener.Accept()
		if err != nil {
			// Too many open files, say: they become fewer.
			log.Print(err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go forward(connection.(*net.TCPConn), *to)
	}
}

// listenOn listens for connections that come in on one network interface.
func listenOn(device, address string) (net.Listener, error) {
	bind := func(_, _ string, connection syscall.RawConn) error {
		var bound error
		err := connection.Control(func(descriptor uintptr) {
			bound = syscall.BindToDevice(int(descriptor), device)
		})
		if err != nil {
			return err
		}
		return bound
	}
	configuration := net.ListenConfig{Control: bind}
	return configuration.Listen(context.Background(), "tcp4", address)
}

// forward passes on what either side says until both have said all.
func forward(pod *net.TCPConn, to string) {
	defer pod.Close()
	connection, err := net.Dial("tcp", to)
	if err != nil {
		log.Print(err)
		return
	}
	server := connection.(*net.TCPConn)
	defer server.Close()
	ended := make(chan struct{})
	go func() {
		pass(server, pod)
		close(ended)
	}()
	pass(pod, server)
	<-ended
}

// pass copies one direction. Its end is passed on as such; an error is the end of both directions.
func pass(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	to.CloseWrite()
}
