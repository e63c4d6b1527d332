import { z } from 'zod'
import { makePaidCall } from '../../paid-call.ts'
import { highlight, printField, printTitle } from '../../terminal.ts'
import type { PayingClient } from '../paying-client.ts'
import { dollars } from './dollars.ts'

interface DemoCall {
  readonly label: string
  readonly path: string
  readonly body: Record<string, unknown>
  /** Returns the essential part of the answer as one line. */
  summary(answer: unknown): string
}

const chat = z.object({ choices: z.tuple([z.object({ message: z.object({ content: z.string() }) })]) })
const message = z.object({ content: z.tuple([z.object({ text: z.string() })]).rest(z.unknown()) })
const hosted = z.object({ data: z.tuple([z.looseObject({ url: z.string() })]) })

/** What the speech call says. */
export const SPOKEN = 'Next stop: the end of the line. Please take your coins, and keep your receipt.'

const CALLS: readonly DemoCall[] = [
  {
    label: 'chat',
    path: '/v1/chat/completions',
    body: {
      model: 'textmodel-3.5-flash',
      max_tokens: 200,
      messages: [{ role: 'user', content: 'Say in one sentence what a farebox does.' }],
    },
    summary: (answer) => chat.parse(answer).choices[0].message.content,
  },
  {
    label: 'messages',
    path: '/v1/messages',
    body: {
      model: 'textmodel-2.5-pro',
      max_tokens: 200,
      messages: [{ role: 'user', content: 'Greet a passenger who pays in cents.' }],
    },
    summary: (answer) => message.parse(answer).content[0].text,
  },
  {
    label: 'images',
    path: '/v1/images/generations',
    body: { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram at night, seen from the stop' },
    summary: (answer) => hosted.parse(answer).data[0].url,
  },
  {
    label: 'speech',
    path: '/v1/audio/speech',
    body: { model: 'speechvendor/flash-v2.5', input: SPOKEN, voice: 'talia' },
    summary: (answer) => hosted.parse(answer).data[0].url,
  },
]

/**
 * Makes one paid call of each of the other four endpoints and prints its authorized maximum, charge and answer. Returns the
 * last answer's line: the URL of the speech.
 */
export async function showOtherCalls(baseUrl: string, client: PayingClient): Promise<string> {
  printTitle('5  Call the other four endpoints')
  let last = ''
  for (const call of CALLS) last = await showCall(baseUrl, client, call)
  return last
}

async function showCall(baseUrl: string, client: PayingClient, call: DemoCall): Promise<string> {
  const { label, path, body } = call
  const { maximum, charge, answer } = await makePaidCall(
    { baseUrl, sign: (challenge) => client.sign(challenge) },
    { path, body },
  )
  const line = call.summary(answer)
  printField(
    label,
    `${path}, ${String(body['model'])}`,
    `authorized up to ${dollars(maximum)} USDC, charged ${highlight(`${dollars(charge)} USDC`)}`,
    line.length > 88 ? `${line.slice(0, 87)}…` : line,
  )
  return line
}
