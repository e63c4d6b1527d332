import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

/**
 * A process that makes one paid call and is killed at one moment of it: as soon as an entry of a phase is in the journal,
 * or `sent`: while the service works for it. Prints the receipt's id and the charge if it comes to its end.
 */
const [home = '', baseUrl = '', rpcUrl = '', privateKey = '', requestId = '', moment = ''] = process.argv.slice(2)

const die = () => process.kill(process.pid, 'SIGKILL')
const { writeSync } = fs
fs.writeSync = ((descriptor: number, data: Buffer, ...others: []) => {
  const written = writeSync(descriptor, data, ...others)
  const phase = /"phase":"([a-z]+)"/.exec(data.toString())?.[1]
  if (phase === moment) die()
  if (phase === 'signed' && moment === 'sent') setTimeout(die, 700)
  return written
}) as typeof fs.writeSync
syncBuiltinESMExports()

const { createFarebox, walletFromPrivateKey } = await import('../../../client/farebox.ts')
const farebox = await createFarebox({ wallet: walletFromPrivateKey(privateKey), baseUrl, rpcUrl, journal: home })
const chat = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Hello.' }], max_tokens: 20 } as const
if (requestId === '') {
  const answer = await farebox.fetch(`${baseUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(chat),
  })
  console.log(JSON.stringify({ status: answer.status }))
} else {
  const { payment } = await farebox.chat.create(chat, { requestId })
  console.log(JSON.stringify({ status: 200, verified: payment.verified }))
}
await farebox.close()
