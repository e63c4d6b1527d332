import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'oxc-parser'
import type { TabledOperation } from '../../support/vendors/options/probes.ts'

const MODULES = new URL('../node_modules/', import.meta.url)

const OPENAI_CHAT = 'openai/resources/chat/completions/completions.d.ts'
const OPENAI_SHARED = 'openai/resources/shared.d.ts'
const ANTHROPIC = '@anthropic-ai/sdk/resources/messages/messages.d.ts'
const ANTHROPIC_BETA = '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts'

type Source = readonly [file: string, typeName: string, prefix: string]

/** The types of the newest SDKs with the fields of each operation's request; `prefix` is where a type is used. */
const SOURCES = {
  createChatCompletion: [
    [OPENAI_CHAT, 'ChatCompletionCreateParamsBase', ''],
    [OPENAI_SHARED, 'FunctionDefinition', 'tools[].function.'],
    [OPENAI_CHAT, 'ChatCompletionAllowedToolChoice', 'tool_choice.'],
    [OPENAI_SHARED, 'ResponseFormatJSONSchema.JSONSchema', 'response_format.json_schema.'],
  ],
  createMessage: [
    [ANTHROPIC, 'MessageCreateParamsBase', ''],
    [ANTHROPIC_BETA, 'MessageCreateParamsBase', ''],
    [ANTHROPIC, 'Tool', 'tools[].'],
    [ANTHROPIC, 'ToolChoiceTool', 'tool_choice.'],
    [ANTHROPIC_BETA, 'BetaOutputConfig', 'output_config.'],
    [ANTHROPIC, 'ThinkingConfigEnabled', 'thinking.'],
    [ANTHROPIC, 'ThinkingConfigAdaptive', 'thinking.'],
  ],
  createSpeech: [['openai/resources/audio/speech.d.ts', 'SpeechCreateParams', '']],
  createTranscription: [['openai/resources/audio/transcriptions.d.ts', 'TranscriptionCreateParamsBase', '']],
} as const satisfies Record<TabledOperation, readonly Source[]>

/** Returns the paths of all fields that the SDKs' types have for an operation's request. */
export function sdkFields(operation: TabledOperation): ReadonlySet<string> {
  return new Set(SOURCES[operation].flatMap(([file, name, prefix]) => membersOf(file, name).map((key) => prefix + key)))
}

/** The few parts of a syntax tree that are read here. */
interface Node {
  readonly type: string
  readonly id?: { readonly name?: string; readonly type: string } | null
  readonly declaration?: Node | null
  readonly body?: Node | readonly Node[] | null
  readonly key?: { readonly name?: string }
}

/** Returns the names of an interface's members. Throws where there is no such interface: the SDK has changed. */
function membersOf(file: string, path: string): readonly string[] {
  const { program } = parseSync(file, readFileSync(fileURLToPath(new URL(file, MODULES)), 'utf8'))
  let nodes = program.body as unknown as readonly Node[]
  const names = path.split('.')
  for (const [depth, name] of names.entries()) {
    const type = depth === names.length - 1 ? 'TSInterfaceDeclaration' : 'TSModuleDeclaration'
    const found = nodes
      .map((node) => node.declaration ?? node)
      .find((node) => node.type === type && node.id?.name === name)
    nodes = bodyOf(found)
  }
  const members = nodes.flatMap(({ key }) => key?.name ?? [])
  if (members.length === 0) throw new Error(`${file} has no interface ${path}`)
  return members
}

function bodyOf(node: Node | undefined): readonly Node[] {
  const body = node?.body
  if (body === undefined || body === null) return []
  return 'type' in body ? bodyOf(body) : body
}
