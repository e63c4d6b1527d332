import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * Loaded into a process through `NODE_OPTIONS=--import`: at each SIGUSR2 it collects all garbage and writes what is left to
 * `MEMORY_DIRECTORY/<pid>.json`. Memory that is only not collected yet would hide what stays.
 */
const directory = process.env['MEMORY_DIRECTORY'] ?? ''
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
let answers = 0

process.on('SIGUSR2', () => {
  // Twice: what only finalizers held goes with the second.
  collectGarbage()
  setImmediate(() => {
    collectGarbage()
    answers += 1
    writeFileSync(join(directory, `${process.pid}.json`), JSON.stringify({ answers, ...process.memoryUsage() }))
  })
})
