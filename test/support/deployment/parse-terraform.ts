import { createRequire } from 'node:module'

/** The package's own types need those of a browser, which this project does not include. */
interface Hcl2Json {
  readonly parse: (fileName: string, text: string) => Promise<unknown>
}

/** Parses Terraform's HCL into JSON with HashiCorp's parser. Throws when the text is not HCL. */
export async function parseTerraform(text: string): Promise<unknown> {
  const { parse } = createRequire(import.meta.url)('@cdktf/hcl2json') as Hcl2Json
  return await parse('module.tf', text)
}
