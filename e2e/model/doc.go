// Package model holds the model-based test: random lives of Services, with damage,
// faults and restarts, on a real kernel. After each of them the kernel must be what a
// fresh start on the same objects makes of an empty one, and Services that nobody
// touched must have answered all the time.
//
//	go run ./e2e/run -env MODEL_SEEDS=200 -timeout 2h -run TestModel ./e2e/model   the seeds 1 to 200
//	go run ./e2e/run -env MODEL_SEED=17 -v -run TestModel ./e2e/model              one, and all it does
package model
