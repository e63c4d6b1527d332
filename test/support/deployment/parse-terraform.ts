import { createRequire } from 'node:module'

/** The package's own types bring those of a browser, which this project does not compile with. */
interface Hcl2Json {
  readonly parse: (fileName: string, text: string) => Promise<unknown>
}

/** Terraform's text as JSON, by HashiCorp's own parser. Throws where the text is no HCL. */
export async function parseTerraform(text: string): Promise<unknown> {
  const { parse } = createRequire(import.meta.url)('@cdktf/hcl2json') as Hcl2Json
  return await parse('module.tf', text)
}
