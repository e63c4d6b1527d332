import { runUpstream } from './run-upstream.ts'

await runUpstream()
