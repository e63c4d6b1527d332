import fc from 'fast-check'
import { numberText } from './random-json.ts'

/*
 * JSON Schemas as text, of what every vendor's dialect knows, so that they are sent as they are. Names of properties may
 * look like array indexes.
 */

const name = fc.oneof(
  fc.stringMatching(/^[a-z_]{1,8}$/),
  fc.nat(3000).map(String),
  fc.constantFrom('reasoning', 'answer', 'parameters', 'schema', 'input', 'args', 'properties', 'type', 'enum'),
)
const words = fc.array(
  fc.string({ minLength: 1, maxLength: 8 }).map((text) => JSON.stringify(text)),
  { minLength: 1, maxLength: 3 },
)

const leaf = fc.oneof(
  words.map((list) => `{"type":"string","enum":[${list.join(',')}]}`),
  fc.array(numberText, { minLength: 1, maxLength: 3 }).map((list) => `{"type":"number","enum":[${list.join(',')}]}`),
  words.map(([title]) => `{"title":${title},"type":["string","null"]}`),
)

const { object } = fc.letrec<{ schema: string; object: string }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3, depthIdentifier: 'schema' },
    leaf,
    tie('schema').map((items) => `{"type":"array","items":${items}}`),
    tie('object'),
  ),
  object: fc
    .uniqueArray(fc.tuple(name, tie('schema')), {
      selector: ([key]) => key,
      minLength: 1,
      maxLength: 4,
      depthIdentifier: 'schema',
    })
    .map((members) => {
      const properties = members.map(([key, schema]) => `${JSON.stringify(key)}:${schema}`).join(',')
      const required = members.map(([key]) => JSON.stringify(key)).toReversed()
      return `{"type":"object","properties":{${properties}},"required":[${required.join(',')}],"additionalProperties":false}`
    }),
}))

export const schemaTexts: fc.Arbitrary<string> = object
