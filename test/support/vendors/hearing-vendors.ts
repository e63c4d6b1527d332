import { runUpstream } from '../../../infra/sandbox/upstream/run-upstream.ts'
import { hearTones } from '../media/tone-ear.ts'

// The simulated vendors of a test's sandbox: they hear the words of scripted voices too.
await runUpstream({ ear: { hearWords: hearTones } })
