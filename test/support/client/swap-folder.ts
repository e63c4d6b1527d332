import { renameSync, rmSync, symlinkSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'

/** Replaces a folder by a link to another one and puts it back, until it is told to stop. */
const { folder, outside } = workerData as { readonly folder: string; readonly outside: string }
let isStopped = false
parentPort?.once('message', () => {
  isStopped = true
})
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- the port of a thread has no origin
parentPort?.postMessage('started')

/** Retries while a writer creates the folder in between. */
function putBack(): void {
  for (;;) {
    try {
      rmSync(folder, { recursive: true, force: true })
      renameSync(`${folder}.kept`, folder)
      return
    } catch {
      // Again.
    }
  }
}

function swap(): void {
  for (let round = 0; round < 50; round += 1) {
    renameSync(folder, `${folder}.kept`)
    try {
      symlinkSync(outside, folder)
    } catch {
      // A writer has created the folder in between.
    }
    putBack()
  }
  if (isStopped) parentPort?.close()
  else setImmediate(swap)
}
swap()
