import type { ContentBlock } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { PaidToolName } from '../../schemas/tool-operations.ts'
import { untrusted } from './untrusted.ts'

/** The parts of results that become content; `structuredContent` has all of them. */
const chatSchema = z.object({ choices: z.tuple([z.object({ message: z.object({ content: z.string().nullable() }) })]) })
const imageSchema = z.object({ data: z.tuple([z.object({ url: z.string(), url_expires_at: z.string() })]) })
const speechSchema = z.object({
  data: z.tuple([z.object({ url: z.string(), expires_at: z.string(), content_type: z.string(), bytes: z.int() })]),
})
const transcriptSchema = z.object({ text: z.string() })

const CONTENT: Readonly<Record<PaidToolName, (result: unknown) => readonly ContentBlock[]>> = {
  chat: (result) => {
    const [{ message }] = chatSchema.parse(result).choices
    if (message.content !== null) return untrusted('model', message.content)
    return [{ type: 'text', text: 'The model answered without a text; structuredContent has its answer.' }]
  },
  generate_image: (result) => {
    const [{ url, url_expires_at: expiresAt }] = imageSchema.parse(result).data
    return [link({ url, name: 'image', mimeType: 'image/png', expiresAt })]
  },
  speak: (result) => {
    const [{ url, expires_at: expiresAt, content_type: mimeType, bytes }] = speechSchema.parse(result).data
    return [link({ url, name: 'speech.mp3', mimeType, expiresAt, size: bytes })]
  },
  transcribe: (result) => untrusted('transcript', transcriptSchema.parse(result).text),
}

/** Returns what a model is shown of a paid result. */
export function contentOf(tool: PaidToolName, result: unknown): readonly ContentBlock[] {
  return CONTENT[tool](result)
}

interface HostedFile {
  readonly url: string
  readonly name: string
  readonly mimeType: string
  readonly expiresAt: string
  readonly size?: number
}

function link({ url, name, mimeType, expiresAt, size }: HostedFile): ContentBlock {
  const description = `Works until ${expiresAt}. The link is a secret: anyone who has it can fetch the file.`
  return { type: 'resource_link', uri: url, name, mimeType, description, ...(size === undefined ? {} : { size }) }
}
