import { readFile } from 'node:fs/promises'
import { z } from 'zod'

const STORES_PAGE = new URL('../../../infra/stores.md', import.meta.url)

/** The name of the bucket in the page's policies. */
const BUCKET = /\bNAME\b/g

const texts = z.union([z.string().transform((text) => [text]), z.array(z.string())])

const statementSchema = z.strictObject({
  Effect: z.enum(['Allow', 'Deny']),
  Principal: z.string().optional(),
  Action: texts,
  Resource: texts,
  Condition: z.record(z.string(), z.record(z.string(), z.string())).optional(),
})

const policySchema = z.strictObject({ Version: z.literal('2012-10-17'), Statement: z.array(statementSchema).min(1) })

export type PolicyStatement = z.infer<typeof statementSchema>

/** Whose rights a policy of the page is, as the line above it says, or `bucket` for the bucket's own. */
export type PolicyName = 'api' | 'worker' | 'archive' | 'bucket'

const HEADINGS: Readonly<Record<PolicyName, string>> = {
  api: '**APIs:**',
  worker: '**Workers and settlers:**',
  archive: '**`npm run archive`:**',
  bucket: '**The bucket**',
}

/** Reads a policy of infra/stores.md for a bucket of this name, whose lists are written out. Throws when it is not there. */
export async function readPolicy(name: PolicyName, bucket: string): Promise<readonly PolicyStatement[]> {
  const page = await readFile(STORES_PAGE, 'utf8')
  const [, section = ''] = page.split(`\n${HEADINGS[name]}`)
  const [, block = ''] = /```json\n([^]*?)```/.exec(section) ?? []
  return policySchema.parse(JSON.parse(block.replaceAll(BUCKET, bucket))).Statement
}
