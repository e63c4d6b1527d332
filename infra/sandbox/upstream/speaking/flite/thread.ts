import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { WASI } from 'node:wasi'
import { workerData } from 'piscina'

/*
 * The entry point of the threads that run flite, a program that computes without a pause.
 */

const OUTPUT = 'speech.wav'

/** What a thread is asked to speak. */
export interface FliteTask {
  readonly options: readonly string[]
  /** An empty folder of the caller: a thread that is ended could not remove one of its own. */
  readonly folder: string
}

/** Runs flite and returns the WAV file that it writes. Throws when it fails. */
export default async function runFlite({ options, folder }: FliteTask): Promise<Uint8Array> {
  const wasi = new WASI({
    version: 'preview1',
    args: ['flite', ...options, '-o', `/out/${OUTPUT}`],
    preopens: { '/out': folder },
    returnOnExit: true,
  })
  // A program that ran cannot run again; an instance of its own costs 20 ms.
  const instance = await WebAssembly.instantiate(workerData as WebAssembly.Module, wasi.getImportObject())
  const code = wasi.start(instance)
  if (code !== 0) throw new Error(`flite ended with exit code ${code}`)
  return readFileSync(join(folder, OUTPUT))
}
