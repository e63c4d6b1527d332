import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { env, memoryUsage } from 'node:process'
import type { Observation } from './observation.ts'

const RESOLUTION_MS = 2

/**
 * The API as it is, observed from within: writes how long its event loop was blocked and how much memory it took to
 * `OBSERVATION_FILE` whenever it gets SIGUSR2, and starts afresh.
 */
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
let peakResidentBytes = 0
let longestBusyMicroseconds = 0
let busyBefore = 0
// A timer fires once in each round of the loop, so that what it sees spent since the last time was one block at most.
const look = () => {
  peakResidentBytes = Math.max(peakResidentBytes, memoryUsage.rss())
  const { user, system } = process.threadCpuUsage()
  longestBusyMicroseconds = Math.max(longestBusyMicroseconds, user + system - busyBefore)
  busyBefore = user + system
}
delay.enable()
setInterval(look, RESOLUTION_MS).unref()
process.on('SIGUSR2', () => {
  look()
  const observation: Observation = {
    longestBlockMs: milliseconds(delay.max),
    longestBusyMs: longestBusyMicroseconds / 1000,
    p99BlockMs: milliseconds(delay.percentile(99)),
    peakResidentBytes,
    residentBytes: memoryUsage.rss(),
  }
  writeFileSync(env['OBSERVATION_FILE'] ?? '', JSON.stringify(observation))
  delay.reset()
  peakResidentBytes = 0
  longestBusyMicroseconds = 0
})
const milliseconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS)

await import('../../../api/main.ts')
