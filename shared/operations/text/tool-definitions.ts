import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { JsonSource, sourceOf } from '#shared/json/json-source.ts'
import { cacheBreakpoint } from './conversation.ts'
import type { TextRequest, TextTool } from './text-request.ts'
import { isObject } from './tool-arguments.ts'

/*
 * Tools in each family's format. The published schema leaves their items unconstrained, so definitions in another
 * format (a vendor's hosted search, a grammar, for example) are accepted and left out. A function without a usable name is
 * refused, and so is a choice that cannot be kept: the answer would not be what was asked for.
 */

type Tooling = Pick<TextRequest, 'tools' | 'tool_choice' | 'parallel_tool_calls'>
type ToolChoice = NonNullable<TextRequest['tool_choice']>

/** A choice as it was sent, and which of the tools it allows; absent: all of them. */
interface Choice {
  readonly choice?: ToolChoice
  readonly allowed?: readonly string[]
}

type Body = Readonly<Record<string, unknown>>

const definitionSchema = z.object({
  name: z.string().min(1),
  description: z.string().nullish(),
  strict: z.boolean().nullish(),
})

/** Completes "… must be …". */
const RULES: Readonly<Record<keyof z.infer<typeof definitionSchema>, string>> = {
  name: 'the name of the function',
  description: 'a string',
  strict: 'a boolean',
}

/** Translates `tools` and `tool_choice` of chat completions, and the older `functions` and `function_call`. */
export function chatTooling(body: Body): Tooling {
  const tools = [
    ...listOf(body['tools']).map((tool, index) => ({ given: functionOf(tool), param: `tools[${index}].function` })),
    ...listOf(body['functions']).map((given, index) => ({ given, param: `functions[${index}]` })),
  ].flatMap(({ given, param }) => (isObject(given) ? toolOf(given, 'parameters', param) : []))
  const param = (body['tool_choice'] ?? null) === null ? 'function_call' : 'tool_choice'
  const isSingle = body['parallel_tool_calls'] === false
  return toolingOf(tools, chatChoice(body[param], param), { param, isSingle })
}

/**
 * Translates `tools` and `tool_choice` of messages. Definitions without `input_schema` are the vendor's hosted tools.
 */
export function messageTooling(body: Body): Tooling {
  const tools = listOf(body['tools']).flatMap((definition, index) =>
    isObject(definition) && (definition['input_schema'] ?? null) !== null
      ? toolOf(definition, 'input_schema', `tools[${index}]`)
      : [],
  )
  const choice = body['tool_choice']
  const isSingle = isObject(choice) && choice['disable_parallel_tool_use'] === true
  return toolingOf(tools, messageChoice(choice), { param: 'tool_choice', isSingle })
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : []
}

function functionOf(tool: unknown): unknown {
  if (!isObject(tool) || (tool['type'] !== 'function' && !isUntypedFunction(tool))) return undefined
  const definition = tool['function'] ?? tool
  const { cache_control: cacheControl } = tool
  return isObject(definition) && cacheControl !== undefined
    ? { ...definition, cache_control: cacheControl }
    : definition
}

function isUntypedFunction(tool: Record<string, unknown>): boolean {
  return (tool['type'] ?? null) === null && isObject(tool['function'])
}

const NO_PARAMETERS = new JsonSource('{"type":"object","properties":{}}')

/** Reads a definition whose parameters are under `field`. */
function toolOf(definition: Record<string, unknown>, field: string, param: string): TextTool[] {
  const { data: known, error } = definitionSchema.safeParse(definition)
  if (!known) {
    const at = error.issues[0]?.path[0] as keyof typeof RULES
    throw refused(`${param}.${at}`, `must be ${RULES[at]}`)
  }
  const { name, description, strict } = known
  const parameters = definition[field] ?? NO_PARAMETERS
  const schema = sourceOf(parameters)
  if (!schema) throw refused(`${param}.${field}`, 'must be a JSON Schema object')
  // Every vendor refuses such a name, and would do so after the payment.
  if (/\p{Cc}/u.test(name))
    throw new AppError('invalid_field', {
      param: 'tools',
      message: 'tools must not contain a tool whose name has control characters.',
    })
  return [
    {
      name,
      ...(typeof description === 'string' ? { description } : {}),
      parameters: schema,
      ...(strict === true ? { strict } : {}),
      ...cacheBreakpoint(definition['cache_control']),
    },
  ]
}

function chatChoice(choice: unknown, param: string): Choice {
  if (choice === undefined || choice === null || choice === 'auto') return {}
  if (choice === 'none' || choice === 'required') return { choice }
  if (isObject(choice) && choice['type'] === 'allowed_tools') return allowedTools(choice['allowed_tools'])
  const named = isObject(choice) ? (choice['function'] ?? choice['custom'] ?? choice) : undefined
  const name = isObject(named) ? named['name'] : undefined
  if (typeof name !== 'string')
    throw refused(param, 'must be "none", "auto", "required", or an object that names a tool or allowed tools')
  return { choice: { name } }
}

/** Reads the tools among which the model may choose. Only they are sent, which every vendor understands. */
function allowedTools(given: unknown): Choice {
  const { mode, tools } = isObject(given) ? given : {}
  const names = listOf(tools).map((tool) => {
    const named = isObject(tool) ? (tool['function'] ?? tool) : undefined
    return isObject(named) ? named['name'] : undefined
  })
  const allowed = names.filter((name) => typeof name === 'string')
  if ((mode !== 'auto' && mode !== 'required') || allowed.length === 0 || allowed.length < names.length)
    throw refused('tool_choice.allowed_tools', 'must have a mode of "auto" or "required" and tools with names')
  return { allowed, ...(mode === 'required' ? { choice: mode } : {}) }
}

function messageChoice(choice: unknown): Choice {
  if (choice === undefined || choice === null) return {}
  const { type, name, disable_parallel_tool_use: single } = isObject(choice) ? choice : {}
  if (typeof (single ?? false) !== 'boolean')
    throw refused('tool_choice.disable_parallel_tool_use', 'must be a boolean')
  if (type === 'auto') return {}
  if (type === 'none') return { choice: type }
  if (type === 'any') return { choice: 'required' }
  if (type === 'tool' && typeof name === 'string') return { choice: { name } }
  throw refused('tool_choice', 'must be an object with a type of "auto", "any", "none", or "tool" and its name')
}

/**
 * Leaves out `auto`, the default. Throws `invalid_field` for a choice of what is not among the tools, or of any tool
 * without tools.
 */
function toolingOf(
  tools: TextTool[],
  { choice, allowed }: Choice,
  { param, isSingle }: { readonly param: string; readonly isSingle: boolean },
): Tooling {
  const names = new Set(tools.map(({ name }) => name))
  const wanted = typeof choice === 'object' ? [choice.name] : (allowed ?? [])
  const missing = wanted.find((name) => !names.has(name))
  if (missing !== undefined) throw refused(param, 'names a tool that is not among the functions of tools')
  if (choice === 'required' && tools.length === 0) throw refused(param, 'needs functions in tools')
  if (tools.length === 0) return {}
  return {
    tools: allowed === undefined ? tools : tools.filter(({ name }) => allowed.includes(name)),
    ...(choice === undefined ? {} : { tool_choice: choice }),
    ...(isSingle ? { parallel_tool_calls: false as const } : {}),
  }
}

function refused(param: string, rule: string): AppError {
  return new AppError('invalid_field', { param, message: `${param} ${rule}.` })
}
