import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/**
 * Loaded before the program: kills the process as soon as an entry of the phase in DIE_AT is in the journal, or, with
 * `answer`, when the answer of a paid call is about to be written to the client.
 */
const { DIE_AT: moment = '' } = process.env

const die = () => process.kill(process.pid, 'SIGKILL')
const { writeSync } = fs
fs.writeSync = ((descriptor: number, data: Buffer, ...others: []) => {
  const written = writeSync(descriptor, data, ...others)
  if (new RegExp(`"phase":"${moment}"`).test(data.toString())) die()
  return written
}) as typeof fs.writeSync
syncBuiltinESMExports()

const write = process.stdout.write.bind(process.stdout)
process.stdout.write = (data: string | Uint8Array, ...others: []) => {
  if (moment === 'answer' && String(data).includes('"structuredContent"')) die()
  return write(data, ...others)
}
