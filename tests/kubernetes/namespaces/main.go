// Removes namespaces with the code of Kubernetes' own namespace controller, but for its pauses.
//
//	namespaces KUBECONFIG
//
// The controller leaves a deleted namespace alone for five seconds, and looks again after whole
// seconds while objects are left in it, so that several API servers and etcd members learn of the
// deletion. The tests' cluster has one of each.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"
)

const (
	pause   = 300 * time.Millisecond
	resync  = 5 * time.Minute // --namespace-sync-period
	workers = 10              // --concurrent-namespace-syncs
)

func main() {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	config.QPS, config.Burst = 400, 3000 // the controller's
	client := kubernetes.NewForConfigOrDie(config)
	deleter := deletion.NewNamespacedResourcesDeleter(
		ctx, client.CoreV1().Namespaces(), metadata.NewForConfigOrDie(config), client.CoreV1(),
		client.Discovery().ServerPreferredNamespacedResources, v1.FinalizerKubernetes)
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Minute))
	add := func(found any) {
		if namespace := found.(*v1.Namespace); namespace.DeletionTimestamp != nil {
			queue.AddAfter(namespace.Name, pause)
		}
	}
	factory := informers.NewSharedInformerFactory(client, resync)
	informer := factory.Core().V1().Namespaces().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, found any) { add(found) },
	}); err != nil {
		log.Fatal(err)
	}
	factory.Start(ctx.Done())
	for range workers {
		go func() {
			for {
				name, _ := queue.Get()
				err := deleter.Delete(ctx, name)
				var remaining *deletion.ResourcesRemainingError
				switch {
				case err == nil:
					queue.Forget(name)
				case errors.As(err, &remaining):
					queue.AddAfter(name, pause)
				default:
					log.Printf("deletion of namespace %s failed: %v", name, err)
					queue.AddRateLimited(name)
				}
				queue.Done(name)
			}
		}()
	}
	<-ctx.Done()
}
