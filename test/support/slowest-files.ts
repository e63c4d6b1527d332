import { relative } from 'node:path'
import type { Reporter, TestModule } from 'vitest/node'

const SHOWN = 20

/** Prints the slowest files of a run, so that a test which became expensive is seen in the CI run that made it so. */
export class SlowestFiles implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length < SHOWN) return
    const rows = modules
      .map((module) => ({ seconds: module.diagnostic().duration / 1000, path: relative('test', module.moduleId) }))
      .sort((one, other) => other.seconds - one.seconds)
    const total = rows.reduce((sum, { seconds }) => sum + seconds, 0)
    console.log(`\nThe slowest of ${rows.length} files, which took ${total.toFixed(0)} s in all workers together:`)
    for (const { seconds, path } of rows.slice(0, SHOWN)) console.log(`${seconds.toFixed(1).padStart(8)} s  ${path}`)
  }
}
