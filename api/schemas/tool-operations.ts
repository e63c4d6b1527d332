import type { OperationId } from '#shared/operations/registry.ts'

/** The paid tools of the MCP server, with the operation that each of them calls. */
export const TOOL_OPERATIONS = {
  chat: 'createChatCompletion',
  generate_image: 'createImageGeneration',
  speak: 'createSpeech',
  transcribe: 'createTranscription',
} as const satisfies Record<string, OperationId>

export type PaidToolName = keyof typeof TOOL_OPERATIONS

export const PAID_TOOL_NAMES = Object.keys(TOOL_OPERATIONS) as readonly PaidToolName[]

/** The free tool, which prices a call of another. */
export const QUOTE_TOOL = 'quote'

export function isPaidTool(name: unknown): name is PaidToolName {
  return typeof name === 'string' && Object.hasOwn(TOOL_OPERATIONS, name)
}
