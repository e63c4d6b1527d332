/**
 * What a caller writes without the client: a loop of the official x402 client over a folder, which asks for each price with
 * the whole form, signs, sends the form again and writes the transcript. It keeps no journal, budget or receipt, and pays
 * again for what it had under way when it ends. Run by `client.ts` as a process, with the environment of the command.
 */
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import pLimit from 'p-limit'
import { privateKeyToAccount } from 'viem/accounts'

const { FAREBOX_URL: baseUrl = '', FAREBOX_PRIVATE_KEY: privateKey = '' } = process.env
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { out: { type: 'string', default: '' }, concurrency: { type: 'string', default: '8' } },
})

const account = privateKeyToAccount(privateKey as `0x${string}`)
const client = new x402Client().register('eip155:8453', new UptoEvmScheme(account))
const payingFetch = wrapFetchWithPayment(fetch, client)

async function transcribe(path: string): Promise<void> {
  const form = new FormData()
  form.append('model', 'speechvendor/scribe-v2')
  form.append('file', new Blob([new Uint8Array(await readFile(path))]), basename(path))
  const answer = await payingFetch(`${baseUrl}/v1/audio/transcriptions`, {
    method: 'POST',
    headers: { 'x-idempotency-key': randomUUID() },
    body: form,
  })
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  const { text } = (await answer.json()) as { text: string }
  await writeFile(join(values.out, `${basename(path, '.mp3')}.txt`), text)
}

await mkdir(values.out, { recursive: true })
const limit = pLimit(Number(values.concurrency))
for (const folder of positionals) {
  const files = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = files.filter((file) => file.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  await Promise.all(paths.map((path) => limit(() => transcribe(path))))
}
