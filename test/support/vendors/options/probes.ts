/** A request with and without one option. */
export interface Probe {
  /** What the option is set to, as the table shows it; by default the JSON of the field. */
  readonly label?: string
  /** What both requests have. */
  readonly base?: object
  /** What only one of them has. */
  readonly fields: object
  /** Whether this is what the option is anyway, so that there is nothing to send. */
  readonly isDefault?: true
}

/** The operations whose options are tried. */
export type TabledOperation = 'createChatCompletion' | 'createMessage' | 'createSpeech' | 'createTranscription'

type Probes = Readonly<Record<string, readonly Probe[]>>

const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const named = (name: string) => ({ type: 'function', function: { name } })
const chatTool = (fields: object = {}, name = 'weather') => ({
  type: 'function',
  function: { name, parameters: schema, ...fields },
})
const messageTool = (fields: object = {}, name = 'weather') => ({ name, input_schema: schema, ...fields })
const chatTools = { tools: [chatTool(), chatTool({}, 'clock')] }
const messageTools = { tools: [messageTool(), messageTool({}, 'clock')] }
const each = (name: string, ...values: readonly unknown[]): readonly Probe[] =>
  values.map((value) => ({ fields: { [name]: value } }))
const byDefault = (name: string, ...values: readonly unknown[]): readonly Probe[] =>
  each(name, ...values).map((probe) => ({ ...probe, isDefault: true }))
/** So many output tokens that a model thinks as hard as its deployment allows, unless it is told to think less. */
const LONG = { max_tokens: 40_000 }
const oneTool = (tool: (fields: object) => object, fields: object, label?: string): Probe => ({
  label: label ?? JSON.stringify(Object.values(fields)[0]),
  base: { tools: [tool({})] },
  fields: { tools: [tool(fields)] },
})
const formatOf = (fields: object) => ({
  response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, ...fields } },
})
const format = (fields: object, label: string): Probe => ({ label, base: formatOf({}), fields: formatOf(fields) })

const SAMPLING = {
  temperature: each('temperature', 0.5),
  top_p: each('top_p', 0.5),
  top_k: each('top_k', 40),
  seed: each('seed', 7),
  presence_penalty: each('presence_penalty', 0.5),
  frequency_penalty: each('frequency_penalty', 0.5),
} satisfies Probes

const STOPS = (count: number) => Array.from({ length: count }, (_, index) => `stop${index}`)

const CHAT: Probes = {
  ...SAMPLING,
  model: [{ label: 'another name', fields: { model: 'gpt-6-luna' } }],
  messages: [{ label: 'another text', fields: { messages: [{ role: 'user', content: 'Good evening' }] } }],
  max_tokens: each('max_tokens', 600),
  max_completion_tokens: each('max_completion_tokens', 500, 128_000),
  stop: [
    ...each('stop', 'END'),
    { label: '5 texts', fields: { stop: STOPS(5) } },
    { label: '6 texts', fields: { stop: STOPS(6) } },
  ],
  n: [...byDefault('n', 1), ...each('n', 2)],
  stream: [...byDefault('stream', false), ...each('stream', true)],
  stream_options: each('stream_options', { include_usage: true }),
  tools: [
    { label: 'functions', fields: { tools: [chatTool()] } },
    {
      label: 'hosted, custom or unknown',
      fields: { tools: [{ type: 'web_search' }, { type: 'custom', custom: { name: 'f' } }] },
    },
  ],
  'tools[].function.name': [
    oneTool(chatTool, { name: 'get_weather' }),
    oneTool(chatTool, { name: 'get.weather' }),
    oneTool(chatTool, { name: 'my tool' }),
  ],
  'tools[].function.description': [oneTool(chatTool, { description: 'Tells the weather.' })],
  'tools[].function.parameters': [
    { label: 'a schema', base: { tools: [named('weather')] }, fields: { tools: [chatTool()] } },
  ],
  'tools[].function.strict': [
    oneTool(chatTool, { strict: true }),
    { ...oneTool(chatTool, { strict: false }), isDefault: true },
  ],
  tool_choice: [
    { label: '"none"', base: chatTools, fields: { tool_choice: 'none' } },
    { label: '"required"', base: chatTools, fields: { tool_choice: 'required' } },
    { label: 'a function', base: chatTools, fields: { tool_choice: named('clock') } },
    { label: 'an unknown function', base: chatTools, fields: { tool_choice: named('other') } },
  ],
  'tool_choice.type': [
    { label: '"custom"', base: chatTools, fields: { tool_choice: { type: 'custom', custom: { name: 'f' } } } },
  ],
  'tool_choice.allowed_tools': [
    {
      label: 'one of two',
      base: chatTools,
      fields: { tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [named('clock')] } } },
    },
  ],
  parallel_tool_calls: [
    { label: 'true', base: chatTools, fields: { parallel_tool_calls: true }, isDefault: true },
    { label: 'false', base: chatTools, fields: { parallel_tool_calls: false } },
  ],
  functions: [{ label: 'a function', fields: { functions: [{ name: 'weather', parameters: schema }] } }],
  function_call: [{ label: 'a function', base: chatTools, fields: { function_call: { name: 'clock' } } }],
  response_format: [
    ...byDefault('response_format', { type: 'text' }),
    ...each('response_format', { type: 'json_object' }),
    {
      label: 'a schema',
      fields: { response_format: { type: 'json_schema', json_schema: { name: 'answer', schema } } },
    },
    { label: 'an unknown type', fields: { response_format: { type: 'grammar' } } },
  ],
  'response_format.json_schema.name': [format({ name: 'weather' }, 'another name')],
  'response_format.json_schema.description': [format({ description: 'The weather.' }, 'a text')],
  'response_format.json_schema.schema': [format({ schema: { ...schema, required: [] } }, 'another schema')],
  'response_format.json_schema.strict': [format({ strict: true }, 'true')],
  reasoning_effort: [{ base: LONG, fields: { reasoning_effort: 'none' } }, ...each('reasoning_effort', 'high')],
  verbosity: [...byDefault('verbosity', 'medium'), ...each('verbosity', 'low')],
  logprobs: [...byDefault('logprobs', false), ...each('logprobs', true)],
  top_logprobs: [...byDefault('top_logprobs', 0), ...each('top_logprobs', 5)],
  logit_bias: [...byDefault('logit_bias', {}), ...each('logit_bias', { 50256: -100 })],
  modalities: [...byDefault('modalities', ['text']), ...each('modalities', ['text', 'audio'])],
  audio: each('audio', { voice: 'alloy', format: 'mp3' }),
  prediction: each('prediction', { type: 'content', content: 'x' }),
  web_search_options: each('web_search_options', {}),
  moderation: each('moderation', { model: 'm' }),
  store: [...byDefault('store', false), ...each('store', true)],
  service_tier: [...byDefault('service_tier', 'auto'), ...each('service_tier', 'flex')],
  metadata: each('metadata', { a: 'b' }),
  user: each('user', 'ann'),
  safety_identifier: each('safety_identifier', 'ann'),
  prompt_cache_key: each('prompt_cache_key', 'key'),
  prompt_cache_options: each('prompt_cache_options', { ttl: '30m' }),
  prompt_cache_retention: each('prompt_cache_retention', '24h'),
}

const MESSAGES: Probes = {
  ...SAMPLING,
  model: [{ label: 'another name', fields: { model: 'claude-opus-5' } }],
  messages: [{ label: 'another text', fields: { messages: [{ role: 'user', content: 'Good evening' }] } }],
  system: [{ label: 'a text', fields: { system: 'Be brief.' } }],
  max_tokens: each('max_tokens', 600, 65_537),
  stop_sequences: [
    ...each('stop_sequences', ['END']),
    { label: '5 texts', fields: { stop_sequences: STOPS(5) } },
    { label: '6 texts', fields: { stop_sequences: STOPS(6) } },
    { label: 'a blank text', fields: { stop_sequences: ['\n'] } },
  ],
  stream: [...byDefault('stream', false), ...each('stream', true)],
  cache_control: each('cache_control', { type: 'ephemeral' }),
  tools: [
    { label: 'with input_schema', fields: { tools: [messageTool()] } },
    { label: 'hosted or unknown', fields: { tools: [{ type: 'web_search_20260318', name: 'web_search' }] } },
  ],
  'tools[].name': [
    oneTool(messageTool, { name: 'get_weather' }),
    oneTool(messageTool, { name: 'get.weather' }),
    oneTool(messageTool, { name: 'my tool' }),
  ],
  'tools[].description': [oneTool(messageTool, { description: 'Tells the weather.' })],
  'tools[].input_schema': [oneTool(messageTool, { input_schema: { ...schema, required: [] } }, 'another schema')],
  'tools[].strict': [oneTool(messageTool, { strict: true })],
  'tools[].cache_control': [oneTool(messageTool, { cache_control: { type: 'ephemeral' } })],
  'tools[].type': [{ ...oneTool(messageTool, { type: 'custom' }), isDefault: true }],
  'tools[].allowed_callers': [oneTool(messageTool, { allowed_callers: ['code_execution_20260521'] })],
  'tools[].defer_loading': [oneTool(messageTool, { defer_loading: true })],
  'tools[].eager_input_streaming': [oneTool(messageTool, { eager_input_streaming: true })],
  'tools[].input_examples': [oneTool(messageTool, { input_examples: [{ city: 'Oslo' }] })],
  tool_choice: each('tool_choice', { type: 'any' }, { type: 'none' }).map((probe) => ({
    ...probe,
    base: messageTools,
  })),
  'tool_choice.type': [{ label: 'an unknown word', base: messageTools, fields: { tool_choice: { type: 'some' } } }],
  'tool_choice.name': ['clock', 'other'].map((name) => ({
    label: name === 'clock' ? 'a tool' : 'an unknown tool',
    base: messageTools,
    fields: { tool_choice: { type: 'tool', name } },
  })),
  'tool_choice.disable_parallel_tool_use': [
    {
      label: 'true',
      base: messageTools,
      fields: { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
    },
  ],
  output_config: [{ label: 'empty', fields: { output_config: {} }, isDefault: true }],
  'output_config.effort': [
    { label: '"low"', base: LONG, fields: { output_config: { effort: 'low' } } },
    { label: '"max"', fields: { output_config: { effort: 'max' } } },
  ],
  'output_config.format': [
    { label: 'a schema', fields: { output_config: { format: { type: 'json_schema', schema } } } },
    { label: 'an unknown type', fields: { output_config: { format: { type: 'grammar' } } } },
  ],
  'output_config.task_budget': [
    { label: 'a budget', fields: { output_config: { task_budget: { type: 'tokens', total: 20_000 } } } },
  ],
  output_format: [{ label: 'a schema', fields: { output_format: { type: 'json_schema', schema } } }],
  thinking: [
    { base: LONG, fields: { thinking: { type: 'disabled' } } },
    ...each('thinking', { type: 'adaptive' }, { type: 'between_tools' }),
  ],
  'thinking.type': [{ label: 'an unknown word', fields: { thinking: { type: 'on' } } }],
  'thinking.budget_tokens': [8192, 100].map((budget_tokens) => ({
    label: String(budget_tokens),
    base: { max_tokens: 9000 },
    fields: { thinking: { type: 'enabled', budget_tokens } },
  })),
  'thinking.display': [{ label: '"summarized"', fields: { thinking: { type: 'adaptive', display: 'summarized' } } }],
  container: each('container', 'container_1'),
  mcp_servers: [
    ...byDefault('mcp_servers', []),
    ...each('mcp_servers', [{ type: 'url', name: 'a', url: 'https://example.com' }]),
  ],
  context_management: each('context_management', { edits: [] }),
  compaction: each('compaction', { type: 'compaction' }),
  thread: each('thread', { type: 'create' }),
  fallbacks: [...byDefault('fallbacks', []), ...each('fallbacks', 'default')],
  fallback_credit_token: each('fallback_credit_token', 'token'),
  billing_policy: each('billing_policy', { type: 'billing_policy', bill_to: 'self' }),
  diagnostics: each('diagnostics', { previous_message_id: null }),
  inference_geo: [...byDefault('inference_geo', 'global'), ...each('inference_geo', 'us')],
  speed: [...byDefault('speed', 'standard'), ...each('speed', 'fast')],
  service_tier: [...byDefault('service_tier', 'auto'), ...each('service_tier', 'priority')],
  metadata: each('metadata', { user_id: 'ann' }),
  betas: each('betas', ['files-api-2025-04-14']),
  user_profile_id: each('user_profile_id', 'profile'),
  workspace_id: each('workspace_id', 'wrkspc_1'),
}

const SPEECH: Probes = {
  model: [{ label: 'another name', fields: { model: 'gpt-4o-mini-tts' } }],
  input: [{ label: 'another text', fields: { input: 'Good evening' } }],
  voice: [
    { label: 'another alias', fields: { voice: 'bella' } },
    { label: 'another name', fields: { voice: 'alloy' } },
  ],
  speed: each('speed', 1.1, 3),
  response_format: [...byDefault('response_format', 'mp3'), ...each('response_format', 'wav')],
  instructions: each('instructions', 'Whisper.'),
  stream_format: each('stream_format', 'sse'),
}

/** Of this service: what it has beside the SDK's fields. */
const TRANSCRIPTION: Probes = {
  model: [{ label: 'another name', fields: { model: 'whisper-1' } }],
  file: [{ label: 'in JSON', fields: { file: 'UklGRg==' } }],
  language: each('language', 'de'),
  response_format: each('response_format', 'verbose_json', 'srt'),
  timestamp_granularities: each('timestamp_granularities', ['word']),
  chunking_strategy: each('chunking_strategy', 'auto'),
  include: each('include', ['logprobs']),
  keywords: each('keywords', ['tram']),
  known_speaker_names: each('known_speaker_names', ['Ann']),
  known_speaker_references: each('known_speaker_references', ['data:audio/wav;base64,AA==']),
  languages: each('languages', ['de']),
  prompt: each('prompt', 'A tram.'),
  stream: each('stream', true),
  temperature: each('temperature', 0.5),
  timestamps: each('timestamps', 'word', 'character'),
  diarize: each('diarize', true),
  num_speakers: each('num_speakers', 2),
  tag_audio_events: each('tag_audio_events', true),
}

/** A probe for every field of the SDKs' types, by its path. */
export const PROBES: Readonly<Record<TabledOperation, Probes>> = {
  createChatCompletion: CHAT,
  createMessage: MESSAGES,
  createSpeech: SPEECH,
  createTranscription: TRANSCRIPTION,
}

/** Fields that are probed although the SDK of the dialect does not have them. */
export const OTHER_FIELDS: Readonly<Record<TabledOperation, readonly string[]>> = {
  createChatCompletion: ['top_k'],
  createMessage: Object.keys(SAMPLING),
  createSpeech: [],
  createTranscription: ['timestamps', 'diarize', 'num_speakers', 'tag_audio_events'],
}
