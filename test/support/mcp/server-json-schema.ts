import * as z from 'zod'

/**
 * The published schema of server.json (2025-12-11), as far as the fields go that this repository uses. Unlike that one it is
 * strict: a misspelled field is an error. The rules behind `refine` are those of the official registry.
 */
const input = z.strictObject({
  description: z.string(),
  format: z.enum(['string', 'number', 'boolean', 'filepath']).optional(),
  isRequired: z.boolean().optional(),
  isSecret: z.boolean().optional(),
  placeholder: z.string().optional(),
})

const argument = z.union([
  z.strictObject({ type: z.literal('positional'), value: z.string() }),
  input.extend({ type: z.literal('positional'), valueHint: z.string(), isRepeated: z.boolean().optional() }),
])

const npmPackage = z.strictObject({
  registryType: z.literal('npm'),
  registryBaseUrl: z.literal('https://registry.npmjs.org'),
  identifier: z.string(),
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  runtimeHint: z.literal('npx'),
  transport: z.strictObject({ type: z.literal('stdio') }),
  packageArguments: z.array(argument),
  environmentVariables: z.array(input.extend({ name: z.string() })),
})

const remote = z
  .strictObject({
    type: z.literal('streamable-http'),
    url: z.string().startsWith('https://'),
    variables: z.record(z.string(), input),
  })
  .refine(({ url, variables }) => [...url.matchAll(/\{(\w+)\}/g)].every(([, name = '']) => name in variables))

export const serverJsonSchema = z.strictObject({
  $schema: z.literal('https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'),
  name: z
    .string()
    .max(200)
    .regex(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/),
  title: z.string().min(1).max(100),
  description: z.string().min(1).max(100),
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  packages: z.array(npmPackage).min(1),
  remotes: z.array(remote).min(1),
})
