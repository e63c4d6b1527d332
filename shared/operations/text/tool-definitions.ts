import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { JsonSource, sourceOf } from '#shared/json/json-source.ts'
import { cacheBreakpoint } from './conversation.ts'
import type { TextRequest, TextTool } from './text-request.ts'
import { isObject } from './tool-arguments.ts'

/*
 * Tools in each family's format. The published schema leaves their items unconstrained, so definitions in another
 * format (a vendor's built-in search, for example) are accepted and not forwarded, like a choice of a tool that is not
 * defined. A name that no vendor could accept is the only fault.
 */

type Tooling = Pick<TextRequest, 'tools' | 'tool_choice'>
type ToolChoice = NonNullable<TextRequest['tool_choice']>

const definitionSchema = z.object({ name: z.string().min(1), description: z.string().optional().catch(undefined) })

/** Translates `tools` and `tool_choice` of chat completions, and the older `functions` and `function_call`. */
export function chatTooling(body: Readonly<Record<string, unknown>>): Tooling {
  const tools = [...listOf(body['tools']).map(functionOf), ...listOf(body['functions'])].flatMap((definition) =>
    isObject(definition) ? toolOf(definition, definition['parameters']) : [],
  )
  return toolingOf(tools, chatChoice(body['tool_choice'] ?? body['function_call']))
}

/**
 * Translates `tools` and `tool_choice` of messages. Definitions without `input_schema` are the vendor's built-in tools.
 */
export function messageTooling(body: Readonly<Record<string, unknown>>): Tooling {
  const tools = listOf(body['tools']).flatMap((definition) =>
    isObject(definition) && isObject(definition['input_schema']) ? toolOf(definition, definition['input_schema']) : [],
  )
  return toolingOf(tools, messageChoice(body['tool_choice']))
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : []
}

function functionOf(tool: unknown): unknown {
  if (!isObject(tool) || tool['type'] !== 'function') return undefined
  const definition = tool['function'] ?? tool
  const { cache_control: cacheControl } = tool
  return isObject(definition) && cacheControl !== undefined
    ? { ...definition, cache_control: cacheControl }
    : definition
}

const NO_PARAMETERS = new JsonSource('{"type":"object","properties":{}}')

function toolOf(definition: Record<string, unknown>, parameters: unknown): TextTool[] {
  const known = definitionSchema.safeParse(definition).data
  if (!known) return []
  const { name, description } = known
  // Every vendor refuses such a name, and would do so after the payment.
  if (/\p{Cc}/u.test(name))
    throw new AppError('invalid_field', {
      param: 'tools',
      message: 'tools must not contain a tool whose name has control characters.',
    })
  return [
    {
      name,
      ...(description === undefined ? {} : { description }),
      parameters: sourceOf(parameters) ?? NO_PARAMETERS,
      ...cacheBreakpoint(definition['cache_control']),
    },
  ]
}

function chatChoice(choice: unknown): ToolChoice | undefined {
  if (choice === 'none' || choice === 'required') return choice
  if (!isObject(choice)) return undefined
  const { name } = isObject(choice['function']) ? choice['function'] : choice
  return typeof name === 'string' ? { name } : undefined
}

function messageChoice(choice: unknown): ToolChoice | undefined {
  if (!isObject(choice)) return undefined
  if (choice['type'] === 'none') return 'none'
  if (choice['type'] === 'any') return 'required'
  return choice['type'] === 'tool' && typeof choice['name'] === 'string' ? { name: choice['name'] } : undefined
}

/** Leaves out `auto`, the default, and a choice of an unknown tool. */
function toolingOf(tools: TextTool[], choice: ToolChoice | undefined): Tooling {
  if (tools.length === 0) return {}
  const isKnown = typeof choice === 'string' || tools.some(({ name }) => name === choice?.name)
  return { tools, ...(choice !== undefined && isKnown ? { tool_choice: choice } : {}) }
}
