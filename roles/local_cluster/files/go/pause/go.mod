module muster.kube/local/pause

go 1.26.0
