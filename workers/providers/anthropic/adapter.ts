import { type Adapter, noOptionsSchema } from '../adapter.ts'
import { createAnthropicText } from './text.ts'

export const anthropic: Adapter = {
  needsKey: true,
  ports: (connection, options) => {
    noOptionsSchema.parse(options)
    return { text: createAnthropicText(connection) }
  },
}
