module muster.kube/local/service-forwarder

go 1.26.0
