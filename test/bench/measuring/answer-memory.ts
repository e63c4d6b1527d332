import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/**
 * A preload for `NODE_OPTIONS=--import`: on SIGUSR2 it collects all garbage and writes the remaining memory to
 * `MEMORY_DIRECTORY/<pid>.json`. Uncollected garbage would hide a leak.
 */
const directory = process.env['MEMORY_DIRECTORY'] ?? ''
setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void
let answers = 0

process.on('SIGUSR2', () => {
  // The second collection frees objects that only finalizers still referenced.
  collectGarbage()
  setImmediate(() => {
    collectGarbage()
    answers += 1
    writeFileSync(join(directory, `${process.pid}.json`), JSON.stringify({ answers, ...process.memoryUsage() }))
  })
})
