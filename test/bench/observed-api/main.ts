import { writeFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { env, memoryUsage } from 'node:process'
import type { Observation } from './observation.ts'

const RESOLUTION_MS = 2

/**
 * Runs the unchanged API with an observer in the same process: on SIGUSR2 it writes how long the event loop was blocked and
 * how much memory was used to `OBSERVATION_FILE`, and resets the figures.
 */
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
let peakResidentBytes = 0
let longestBusyMicroseconds = 0
let busyBefore = 0
// A timer fires at most once in each iteration of the loop, so the time since its last call is at most one block.
const sample = () => {
  peakResidentBytes = Math.max(peakResidentBytes, memoryUsage.rss())
  const { user, system } = process.threadCpuUsage()
  longestBusyMicroseconds = Math.max(longestBusyMicroseconds, user + system - busyBefore)
  busyBefore = user + system
}
delay.enable()
setInterval(sample, RESOLUTION_MS).unref()
process.on('SIGUSR2', () => {
  sample()
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
