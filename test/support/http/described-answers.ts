import { z } from 'zod'
import type { ObservedAnswer } from '../processes/observed-sandbox.ts'

type JsonSchema = Parameters<typeof z.fromJSONSchema>[0]
interface Reference {
  $ref?: string
}
interface DescribedResponse extends Reference {
  headers?: Record<string, Reference & { schema: JsonSchema; required?: boolean }>
  content?: Record<string, { schema: JsonSchema }>
}
interface Document {
  paths: Record<string, Record<string, { responses: Record<string, DescribedResponse> }>>
  components: Record<string, Record<string, unknown>>
}

/** The OpenAPI description of an origin. */
export interface InterfaceDescription {
  /** Returns the ways in which an answer deviates from the description. */
  readonly problemsOf: (answer: ObservedAnswer) => string[]
}

/** Reads `/openapi.json`, against which answers are then checked by their operation and status. */
export async function readDescription(baseUrl: string): Promise<InterfaceDescription> {
  const document = (await (await fetch(`${baseUrl}/openapi.json`)).json()) as Document
  const compile = compiler(document)
  return {
    problemsOf: (answer) =>
      problemsOf(document, compile, answer).map(
        (problem) => `${answer.method} ${answer.path} ${answer.status}: ${problem}`,
      ),
  }
}

function problemsOf(document: Document, compile: (schema: JsonSchema) => z.ZodType, answer: ObservedAnswer): string[] {
  const operation = findPath(document, answer.path)?.[answer.method.toLowerCase()]
  // An unknown route or method has no operation; only the common error body is promised.
  if (!operation) {
    const isRefusal = answer.status === 404 || answer.status === 405
    const error = compile({ $ref: '#/components/schemas/Error' })
    return isRefusal ? zodProblems(error, JSON.parse(answer.body.toString())) : ['there is no such operation']
  }
  const response = resolve(document, operation.responses[answer.status.toString()])
  if (!response) return ['the status is not described']
  return [...headerProblems(document, compile, response, answer), ...bodyProblems(compile, response, answer)]
}

function headerProblems(
  document: Document,
  compile: (schema: JsonSchema) => z.ZodType,
  { headers = {} }: DescribedResponse,
  answer: ObservedAnswer,
): string[] {
  return Object.entries(headers).flatMap(([name, described]) => {
    const value = answer.headers.get(name)
    const { schema = true, required = true } = resolve(document, described) ?? {}
    if (value === null) return required ? [`the header ${name} is missing`] : []
    const isNumber = typeof schema === 'object' && schema.type === 'integer'
    return zodProblems(compile(schema), isNumber ? Number(value) : value).map((problem) => `${name}: ${problem}`)
  })
}

function bodyProblems(
  compile: (schema: JsonSchema) => z.ZodType,
  { content }: DescribedResponse,
  answer: ObservedAnswer,
): string[] {
  if (!content) return answer.body.length === 0 ? [] : ['a body is not described']
  const type = answer.headers.get('content-type')?.split(';', 1)[0] ?? ''
  const described = content[type]
  if (!described) return [`the content type ${type} is not described`]
  if (type !== 'application/json') return answer.body.length > 0 ? [] : ['the body is empty']
  return zodProblems(compile(described.schema), JSON.parse(answer.body.toString()))
}

function zodProblems(schema: z.ZodType, value: unknown): string[] {
  return (schema.safeParse(value).error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

function findPath({ paths }: Document, path: string) {
  const found = Object.keys(paths).find((pattern) =>
    new RegExp(`^${pattern.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`).test(path),
  )
  return found === undefined ? undefined : paths[found]
}

function resolve<T extends Reference>({ components }: Document, value: T | undefined): T | undefined {
  if (value?.$ref === undefined) return value
  const [kind = '', name = ''] = value.$ref.slice('#/components/'.length).split('/')
  return components[kind]?.[name] as T | undefined
}

/** Returns a compiler of the document's schemas that compiles each of them once. */
function compiler({ components }: Document): (schema: JsonSchema) => z.ZodType {
  const $defs = local(components['schemas'])
  const compiled = new Map<string, z.ZodType>()
  return (schema) => {
    const key = JSON.stringify(schema)
    const known = compiled.get(key) ?? z.fromJSONSchema({ ...local(schema), $defs } as JsonSchema)
    compiled.set(key, known)
    return known
  }
}

/** Returns a schema of the document with its references pointing to `$defs`. */
function local(schema: unknown): Record<string, unknown> {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/components/schemas/', '"#/$defs/')) as Record<string, unknown>
}
