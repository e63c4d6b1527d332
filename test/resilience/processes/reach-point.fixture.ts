import { setTimeout as delay } from 'node:timers/promises'
import { createReachPoint } from './reach-point.ts'

/** Passes the point `loop` repeatedly and prints what happens there. */
const reach = createReachPoint(process.argv[2] ?? '')
process.stdout.write('running\n')
for (;;) {
  try {
    reach('loop')
  } catch (error) {
    process.stdout.write(`${error instanceof Error ? error.message : 'failed'}\n`)
  }
  await delay(5)
}
