import { z } from 'zod'
import { makePaidCall } from '../../paid-call.ts'
import { highlight, printField, printTitle } from '../../terminal.ts'
import type { PayingClient } from '../paying-client.ts'
import { SPOKEN } from './other-calls.ts'

const transcript = z.object({ text: z.string() })

/** Has the speech that was bought transcribed by another paid call, and prints what was said and what was heard. */
export async function showRoundTrip(baseUrl: string, client: PayingClient, speechUrl: string): Promise<void> {
  printTitle('6  Have what was spoken transcribed')
  const speech = await fetch(speechUrl)
  if (speech.status !== 200) throw new Error(`the speech cannot be downloaded: ${speech.status}`)
  const form = new FormData()
  form.set('model', 'speechvendor/scribe-v2')
  form.set('file', await speech.blob(), 'speech.mp3')
  const { answer } = await makePaidCall(
    { baseUrl, sign: (challenge) => client.sign(challenge) },
    { path: '/v1/audio/transcriptions', body: form },
  )
  printField('said', SPOKEN)
  printField('heard', highlight(transcript.parse(answer).text))
}
