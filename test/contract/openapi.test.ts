import { validate } from '@scalar/openapi-validator'
import { describe, expect, it } from 'vitest'
import { createCatalog } from '#shared/catalog/catalog.ts'
import { publishedCatalog } from '#shared/catalog/published-catalog.ts'
import { operations } from '#shared/operations/registry.ts'
import { buildOpenApiDocument } from '../../api/openapi/document.ts'
import { llmsText } from '../../api/openapi/guidance.ts'
import { PUBLIC_BASE_URL, terms } from '../integration/routes/compose-app.ts'

interface Operation {
  operationId: string
  tags: string[]
  security: unknown[]
  summary: string
  parameters?: unknown[]
  requestBody?: { content: Record<string, unknown> }
  responses: Record<string, Record<string, unknown>>
  'x-payment-info'?: unknown
}
interface Schema {
  type: string
  properties: Record<string, Record<string, unknown>>
  required: string[]
  additionalProperties: unknown
}
interface Document {
  openapi: string
  info: { version: string; description: string; contact: Record<string, string>; 'x-guidance': string }
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

const input = {
  publishedCatalog,
  operations,
  terms,
  publicBaseUrl: PUBLIC_BASE_URL,
  contactEmail: 'operator@farebox.example',
}
const document = buildOpenApiDocument(input) as unknown as Document
const described = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, operation]) => ({ ...operation, method, path })),
)
const schemaOf = (name: string): Schema => document.components.schemas[name] as Schema
const paid = described.filter((operation) => operation['x-payment-info'] !== undefined)
const dynamic = (min: string, max: string) => ({ mode: 'dynamic', currency: 'USD', min, max })

describe('the OpenAPI document', () => {
  it('the OpenAPI document is valid OpenAPI 3.1', () => {
    const { valid, errors } = validate(structuredClone(document) as never)
    expect({ valid, errors }).toEqual({ valid: true, errors: [] })
    expect(document.openapi).toBe('3.1.0')
  })

  it('the OpenAPI document resolves all its references and declares every path parameter', () => {
    const references = JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)
    for (const [, pointer = ''] of references) {
      const target = pointer
        .split('/')
        .reduce<unknown>((value, key) => (value as Record<string, unknown>)?.[key], document)
      expect([pointer, typeof target]).toEqual([pointer, 'object'])
    }
    for (const { path, parameters = [] } of described)
      for (const [, name] of path.matchAll(/\{([^}]+)\}/g))
        expect(parameters).toContainEqual(expect.objectContaining({ name, in: 'path', required: true }))
  })

  it('the OpenAPI document is byte-equal for the same input', () => {
    expect(JSON.stringify(buildOpenApiDocument(input))).toBe(JSON.stringify(document))
  })

  it('the OpenAPI document has version 0.5.0, a contact, guidance short enough for agents, and a server [spec V1]', () => {
    expect(document.info.version).toBe('0.5.0')
    expect(document.info.contact['email']).toBe('operator@farebox.example')
    expect(document.info['x-guidance'].length).toBeLessThan(4000)
    expect(document).toMatchObject({ servers: [{ url: PUBLIC_BASE_URL }] })
  })

  it('the OpenAPI document has the nine operations on their paths, and tags all others as support [spec S1, E2, E19, E32, E46, E57, V2]', () => {
    const named = described.filter(({ tags }) => !tags.includes('support'))
    expect(named.map(({ operationId, method, path }) => [operationId, method, path])).toEqual([
      ['createChatCompletion', 'post', '/v1/chat/completions'],
      ['createMessage', 'post', '/v1/messages'],
      ['createImageGeneration', 'post', '/v1/images/generations'],
      ['createSpeech', 'post', '/v1/audio/speech'],
      ['createTranscription', 'post', '/v1/audio/transcriptions'],
      ['listModels', 'get', '/v1/models'],
      ['listPricing', 'get', '/v1/pricing'],
      ['listAudioVoices', 'get', '/v1/audio/voices'],
      ['getWalletBalance', 'get', '/v1/balance'],
    ])
    expect(new Set(described.map(({ operationId }) => operationId)).size).toBe(described.length)
    for (const { security } of described) expect(security).toEqual([])
  })

  it('the OpenAPI document has the specified price bounds [spec E3, E20, E47, E58]', () => {
    const prices = paid.map((operation) => (operation['x-payment-info'] as { price: unknown }).price)
    expect(prices).toEqual([
      dynamic('0.002', '0.766952'),
      dynamic('0.002', '0.766952'),
      { mode: 'fixed', currency: 'USD', amount: '0.035' },
      dynamic('0.002', '0.441'),
      dynamic('0.005034', '0.122'),
    ])
  })

  it.each(paid)('$operationId documents key, payment, success headers and failures [spec L7b, E1]', (operation) => {
    expect(operation.parameters).toHaveLength(2)
    expect(operation.responses['200']).toMatchObject({
      headers: {
        'X-Receipt-ID': {},
        'X-Receipt-Token': {},
        'PAYMENT-RESPONSE': {},
        'X-Request-ID': {},
        'X-Catalog-Version': {},
      },
      content: { 'application/json': {} },
    })
    expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(['400', '402', '409', '503']))
    expect(operation.responses['402']).toEqual({ $ref: '#/components/responses/Failure402' })
  })

  it.each([
    '/v1/catalogs/{version}',
    '/v1/balance',
    '/v1/quotes',
    '/v1/allowances',
    '/v1/receipts/{id}',
    '/media/{token}',
    '/mcp',
    ...paid.map(({ path }) => path),
  ])('documents that requests to %s are limited', (path) => {
    for (const { responses } of described.filter((operation) => operation.path === path))
      expect(Object.keys(responses)).toContain('429')
  })

  it('documents every type that hosted media can have', () => {
    const media = described.find(({ path }) => path === '/media/{token}')
    for (const status of ['200', '206'])
      expect(Object.keys(media?.responses[status]?.['content'] ?? {})).toEqual([
        'image/png',
        'image/jpeg',
        'image/webp',
        'audio/mpeg',
      ])
  })

  it.each(operations)('$id has examples that its own schemas accept', (operation) => {
    const { requestExample, resultExample } = operation
    const { [operation.upload?.jsonField ?? '']: upload, ...body } = requestExample
    expect(operation.bodySchema.safeParse(body).error).toBeUndefined()
    expect(upload === undefined).toBe(operation.upload === null)
    expect(operation.resultSchema.safeParse(resultExample).error).toBeUndefined()
  })

  it('the OpenAPI document accepts transcriptions as JSON and as a form, with the same fields in addition to the audio [spec E73]', () => {
    const operation = document.paths['/v1/audio/transcriptions']?.['post']
    expect(Object.keys(operation?.requestBody?.content ?? {})).toEqual(['application/json', 'multipart/form-data'])
    const [json, form] = [schemaOf('CreateTranscriptionRequest'), schemaOf('CreateTranscriptionFormRequest')]
    const { audio_base64: encoded, ...fields } = json.properties
    const { file, ...formFields } = form.properties
    expect(formFields).toEqual(fields)
    expect(encoded).toMatchObject({ minLength: 4, maxLength: 34_952_536 })
    expect(file).toMatchObject({ format: 'binary' })
    expect([json.required, form.required]).toEqual([
      ['audio_base64', 'model'],
      ['file', 'model'],
    ])
  })

  it('the OpenAPI document marks size as deprecated, and allows additional properties only where specified [spec V5]', () => {
    const image = schemaOf('CreateImageGenerationRequest')
    expect(image.properties['size']).toMatchObject({ deprecated: true, const: '1024x1024' })
    const closed = ['CreateImageGeneration', 'CreateSpeech', 'CreateTranscription']
    for (const name of closed) expect(schemaOf(`${name}Request`).additionalProperties).toBe(false)
    for (const name of ['CreateChatCompletion', 'CreateMessage'])
      expect(schemaOf(`${name}Request`).additionalProperties).not.toBe(false)
  })

  it('the OpenAPI document has the headers of an MP3 answer on speech, and on no other operation', () => {
    const names = ['X-Media-URL', 'X-Media-Expires-At', 'X-Audio-Duration-Ms', 'X-Input-Characters']
    const withMedia = paid.filter(({ responses }) => {
      const { headers } = responses['200'] as { headers: Record<string, unknown> }
      return names.every((name) => headers[name] !== undefined)
    })
    expect(withMedia.map(({ operationId }) => operationId)).toEqual(['createSpeech'])
  })

  it('the OpenAPI document states the rules of validation that the specification leaves open [spec O38]', () => {
    expect(schemaOf('CreateSpeechRequest').properties['input']).toMatchObject({
      minLength: 1,
      maxLength: 2000,
      pattern: '[\\p{L}\\p{N}]',
      description: expect.stringContaining('letter or number'),
    })
    for (const form of ['Request', 'FormRequest'])
      expect(schemaOf(`CreateTranscription${form}`).properties['language']).toMatchObject({
        maxLength: 64,
        pattern: '^\\P{Cc}*$',
      })
    for (const { requestBody } of paid)
      expect(requestBody).toMatchObject({
        description: expect.stringMatching(/64 levels.*200,000.*U\+0000.*surrogate/),
      })
    for (const name of ['CreateChatCompletionRequest', 'CreateMessageRequest'])
      expect(JSON.stringify(schemaOf(name))).toContain('http is refused')
  })

  it('the OpenAPI document and llms.txt say what is stored of a call, and for how long [spec O42]', () => {
    const said = [document.info.description, llmsText(publishedCatalog, PUBLIC_BASE_URL)]
    for (const text of said) expect(text).toMatch(/seven days.*permanently: the receipt.*digests.*write-ahead log/s)
  })

  it('the OpenAPI document states the default voice of the catalog', () => {
    const models = publishedCatalog.models.map((model) =>
      model.category === 'text_to_speech' ? { ...model, defaultVoice: 'talia' } : model,
    )
    const other = buildOpenApiDocument({ ...input, publishedCatalog: createCatalog({ ...publishedCatalog, models }) })
    const voiceIn = (text: unknown) =>
      (text as typeof document).components.schemas['CreateSpeechRequest']?.properties['voice']
    expect(voiceIn(document)).toMatchObject({ default: 'darian' })
    expect(voiceIn(other)).toMatchObject({ default: 'talia' })
  })

  it('the OpenAPI document has no empty schema for a specified object', () => {
    for (const name of ['ModelList', 'PricingCatalog', 'VoiceList', 'WalletBalance', 'Quote', 'Receipt'])
      expect([name, Object.keys(schemaOf(name).properties).length > 3 || name === 'VoiceList']).toEqual([name, true])
    expect(schemaOf('WalletBalance').properties['balance_usdc_atomic']).toMatchObject({ pattern: '^\\d+$' })
  })
})
