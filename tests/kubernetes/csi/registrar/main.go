// Registers a CSI driver with kubelet: what node-driver-registrar does, of which no version can be
// had from the Go proxy.
//
//	registrar SOCKET DRIVER ENDPOINT
//
// kubelet finds SOCKET in its folder plugins_registry, and then calls the driver at ENDPOINT.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type server struct {
	registration.UnimplementedRegistrationServer
	driver, endpoint string
}

func (s server) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              s.driver,
		Endpoint:          s.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (s server) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	fmt.Printf("registered: %t %s\n", status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	serving := grpc.NewServer()
	registration.RegisterRegistrationServer(serving, server{driver: os.Args[2], endpoint: os.Args[3]})
	panic(serving.Serve(listener))
}
