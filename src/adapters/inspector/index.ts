export { inspector, type Inspector } from './inspector.js'
export type { InspectedServer, InspectorOptions } from './options.js'
