import { Gauge, type Registry } from 'prom-client'
import type { JobMemory } from '../job/job-memory.ts'

/** Adds the memory that the jobs of this process have reserved, and those that wait for it. */
export function addMemoryMetrics(registry: Registry, memory: Pick<JobMemory, 'current'>): void {
  const register = { registers: [registry] }
  const bytes = new Gauge({
    name: 'farebox_job_memory_bytes',
    help: 'Memory for what jobs hold: reserved, and the limit (MAXIMUM_JOB_MEGABYTES)',
    labelNames: ['of'],
    ...register,
    collect: () => {
      const { reservedBytes, limitBytes } = memory.current()
      bytes.set({ of: 'reserved' }, reservedBytes)
      bytes.set({ of: 'limit' }, limitBytes)
    },
  })
  const waiting = new Gauge({
    name: 'farebox_jobs_waiting_for_memory',
    help: 'Jobs that this process has claimed and that wait for memory',
    ...register,
    collect: () => {
      waiting.set(memory.current().waitingJobs)
    },
  })
  const longest = new Gauge({
    name: 'farebox_job_memory_wait_seconds',
    help: 'How long the first of the jobs that wait for memory has waited; 0 when none waits',
    ...register,
    collect: () => {
      longest.set(memory.current().longestWaitMs / 1000)
    },
  })
}
