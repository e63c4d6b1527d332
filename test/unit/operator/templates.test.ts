import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createTemplates, TEMPLATES } from '../../../operator/rendering/templates.ts'

const render = (template: string, data: object = {}) => createTemplates().renderString(template, data)

describe('a template of the console', () => {
  it('escapes what it prints, in text and in attributes', () => {
    const hostile = `<script>alert("1")</script>'\`&`
    const escaped = '&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&#96;&amp;'
    expect(render('<p title="<%= it.text %>"><%= it.text %></p>', { text: hostile })).toBe(
      `<p title="${escaped}">${escaped}</p>`,
    )
  })

  it.each([
    '<%~ it.text %>',
    "<%~ include('@id', { id: it.text }) + it.text %>",
    '<%~ include(it.name) %>',
    "<%~ include('../../../etc/passwd') %>",
    '<% output(it.text) %>',
    '<% __eta.res += it.text %>',
  ])('does not compile with unescaped output: %s', (template) => {
    expect(() => render(template, { text: '<b>' })).toThrow(/unescaped output|writes by itself/)
  })

  it('throws for a value that is missing instead of printing "undefined"', () => {
    expect(() => render('<%= it.absent %>')).toThrow('a template prints a value of the type undefined')
    expect(() => render('<%= it.value %>', { value: {} })).toThrow('a template prints a value of the type object')
  })
})

/** Every template of the console, with its text. */
const files = (await readdir(TEMPLATES, { recursive: true })).filter((name) => name.endsWith('.eta'))
const templates = await Promise.all(
  files.map(async (name) => [name, await readFile(join(TEMPLATES, name), 'utf8')] as const),
)

describe.each(templates)('%s', (_name, text) => {
  it('compiles', () => {
    expect(() => createTemplates().compile(text)).not.toThrow()
  })

  it('has no inline style, script or handler, and quotes every attribute that prints a value', () => {
    const markup = text.replaceAll(/<%[^=~][^]*?%>/g, '').replaceAll(/<%[=~][^]*?%>/g, '{{}}')
    expect(markup).not.toMatch(/<script(?![^>]* src="\/operator\/assets\/)|<style|\sstyle=|\son[a-z]+=|javascript:/i)
    expect(markup).not.toMatch(/\s[\w-]+=\s*(?:\{\{|')/)
    expect(markup).not.toMatch(/https?:\/\//)
  })
})
