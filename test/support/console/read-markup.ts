/** A form that changes something, as it is on a page. */
export interface PageForm {
  readonly action: string
  /** What is sent when nothing is entered, without the CSRF token. */
  readonly fields: Readonly<Record<string, string>>
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'", '#96': '`' }

function unescape(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39|#96);/g, (entity, name: string) => ENTITIES[name] ?? entity)
}

function attribute(tag: string, name: string): string | undefined {
  const value = new RegExp(`\\s${name}="([^"]*)"`).exec(tag)?.[1]
  return value === undefined ? undefined : unescape(value)
}

/** Returns the addresses that a page of the console links to. */
export function readLinks(html: string): string[] {
  return [...html.matchAll(/<a\s[^>]*>/g)].flatMap(([tag]) => attribute(tag, 'href') ?? [])
}

/** Returns the CSRF token of a page. Every form of a page has the same. */
export function readCsrfToken(html: string): string {
  const token = /name="_csrf" value="([^"]+)"/.exec(html)?.[1]
  if (token === undefined) throw new Error('the page has no form')
  return unescape(token)
}

/** Returns the forms of a page that are posted. */
export function readForms(html: string): PageForm[] {
  return [...html.matchAll(/<form\s[^>]*method="post"[^>]*>[^]*?<\/form>/g)].map(([form]) => ({
    action: attribute(form.slice(0, form.indexOf('>')), 'action') ?? '',
    fields: readFields(form),
  }))
}

/** Returns the fields of the forms that filter a page. */
export function readFilters(html: string): PageForm[] {
  return [...html.matchAll(/<form\s[^>]*method="get"[^>]*>[^]*?<\/form>/g)].map(([form]) => ({
    action: attribute(form.slice(0, form.indexOf('>')), 'action') ?? '',
    fields: readFields(form),
  }))
}

function readFields(form: string): Record<string, string> {
  const inputs = [...form.matchAll(/<(?:input|button)\s[^>]*>/g)].map(
    ([tag]) => [attribute(tag, 'name'), attribute(tag, 'value') ?? ''] as const,
  )
  const areas = [...form.matchAll(/(<textarea\s[^>]*>)([^]*?)<\/textarea>/g)].map(
    ([, tag = '', text = '']) => [attribute(tag, 'name'), unescape(text)] as const,
  )
  const selects = [...form.matchAll(/(<select\s[^>]*>)([^]*?)<\/select>/g)].map(([, tag = '', options = '']) => {
    const chosen = /<option\s[^>]*\sselected[^>]*>/.exec(options)?.[0] ?? /<option\s[^>]*>/.exec(options)?.[0] ?? ''
    return [attribute(tag, 'name'), attribute(chosen, 'value') ?? ''] as const
  })
  const named = [...inputs, ...areas, ...selects].filter(([name]) => name !== undefined && name !== '_csrf')
  return Object.fromEntries(named)
}
