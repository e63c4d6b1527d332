export { type FindOptions, findRecordings } from './find/find-recordings.ts'
export { planBatch } from './plan/plan-batch.ts'
export { runBatch } from './run/run-batch.ts'
export * from './types.ts'
