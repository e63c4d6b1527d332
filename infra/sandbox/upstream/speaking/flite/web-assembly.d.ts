/** What is used here of Node's WebAssembly, whose types are in those of browsers only. */
declare namespace WebAssembly {
  type Module = { readonly brand: 'WebAssembly.Module' }
  function compile(program: Uint8Array): Promise<Module>
  function instantiate(module: Module, imports: object): Promise<object>
}
