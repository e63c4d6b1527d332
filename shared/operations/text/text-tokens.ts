import { pixelSize } from './image-bytes.ts'
import { imageTokenBound } from './image-tokens.ts'
import type { TextPart, TextRequest, TextTool } from './text-request.ts'

/*
 * The maximum number of input tokens of a text request, whichever tokenizer serves it.
 *
 * Plain text: each token of a byte-level or byte-fallback tokenizer (GPT, Gemini and Gemma, Claude, Llama, Qwen)
 * represents at least one byte of UTF-8, so there are at most as many tokens as bytes. Text that a chat template writes
 * as JSON (schemas, arguments, tool results) is counted in its longest plain rendering instead. Markup that templates
 * and vendors add is covered by the allowances below, each well above the templates in use.
 */

/** Start and end markers, generation prompt, and a template's own default system text (about 90 tokens at most). */
const TOKENS_PER_REQUEST = 256
/** Role and turn markers; four to seven in the templates in use. */
const TOKENS_PER_MESSAGE = 16
/** Separators and markers around one part. */
const TOKENS_PER_PART = 16
/** The instructions that vendors add for tools (Claude documents up to 675). */
const TOKENS_FOR_TOOLS = 1024
/** The wrapping of one definition. */
const TOKENS_PER_TOOL = 64
/** The instructions that vendors add for structured output. */
const TOKENS_FOR_RESPONSE_FORMAT = 256

/** Returns the bound in whole tokens, at least 1. */
export function inputTokenBound(request: TextRequest): number {
  const { system = '', messages, tools = [], response_format: format } = request
  let tokens = TOKENS_PER_REQUEST + utf8Bytes(system)
  for (const { parts } of messages) {
    tokens += TOKENS_PER_MESSAGE
    for (const part of parts) tokens += TOKENS_PER_PART + partTokens(part)
  }
  if (tools.length > 0) tokens += TOKENS_FOR_TOOLS
  for (const tool of tools) tokens += TOKENS_PER_TOOL + toolTokens(tool)
  if (format && format.type !== 'text') tokens += TOKENS_FOR_RESPONSE_FORMAT
  if (format?.type === 'json_schema')
    tokens += utf8Bytes(format.name ?? '') + jsonBytes(format.description ?? '') + longestRendering(format.schema.text)
  return tokens
}

function partTokens(part: TextPart): number {
  switch (part.type) {
    case 'text':
      return utf8Bytes(part.text)
    case 'image':
      return imageTokenBound(
        part.source.kind === 'inline' ? pixelSize(Buffer.from(part.source.base64, 'base64')) : null,
      )
    case 'tool_call':
      return utf8Bytes(part.id) + utf8Bytes(part.name) + longestRendering(part.arguments_json)
    case 'tool_result':
      return utf8Bytes(part.tool_call_id) + utf8Bytes(part.name ?? '') + jsonBytes(part.text)
  }
}

function toolTokens({ name, description = '', parameters }: TextTool): number {
  return utf8Bytes(name) + jsonBytes(description) + longestRendering(parameters.text)
}

function utf8Bytes(text: string): number {
  return Buffer.byteLength(text, 'utf8')
}

function jsonBytes(text: string): number {
  return longestRendering(JSON.stringify(text))
}

/**
 * Counts the bytes of JSON text when every character beyond ASCII is written as `\uXXXX` and a space follows every
 * comma and colon, as Python's `json.dumps` does; chat templates use this or a shorter form.
 */
function longestRendering(json: string): number {
  let bytes = 0
  for (let at = 0; at < json.length; at += 1) {
    const unit = json.charCodeAt(at)
    if (unit > 0x7f) bytes += 6
    else bytes += unit === 0x2c || unit === 0x3a ? 2 : 1
  }
  return bytes
}
