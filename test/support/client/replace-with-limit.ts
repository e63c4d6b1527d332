import { execFileSync } from 'node:child_process'
import { replaceFile } from '../../../client/files/files.ts'

/** Replaces a file by one that is larger than files may be, as on a full disk, and prints the error's code. */
const [path = ''] = process.argv.slice(2)
// A real full disk sends no signal.
process.on('SIGXFSZ', () => undefined)
execFileSync('prlimit', ['--pid', String(process.pid), '--fsize=4096:'])
const code = await replaceFile(path, 'x'.repeat(10_000)).then(
  () => 'replaced',
  (error: NodeJS.ErrnoException) => error.code,
)
execFileSync('prlimit', ['--pid', String(process.pid), '--fsize=unlimited:'])
console.log(code)
