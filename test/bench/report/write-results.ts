import { mkdir, writeFile } from 'node:fs/promises'
import { arch, cpus, loadavg, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const FOLDER = fileURLToPath(new URL('../../../.farebox/bench/', import.meta.url))

/** Writes a measurement's figures and a description of the machine to `.farebox/bench/<name>.json`, and prints the path. */
export async function writeResults(name: string, figures: Record<string, unknown>): Promise<void> {
  const machine = {
    processor: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryBytes: totalmem(),
    architecture: arch(),
    node: process.version,
    loadAverage: loadavg()[0],
  }
  await mkdir(FOLDER, { recursive: true })
  const file = join(FOLDER, `${name}.json`)
  await writeFile(file, `${JSON.stringify({ measurement: name, takenAt: new Date(), machine, ...figures }, null, 2)}\n`)
  console.log(`figures written to ${file}`)
}
