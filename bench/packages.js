/**
 * Imports a package from `bench/node_modules`, or from the project if it is there. This file is not compiled, because
 * Node looks for packages next to the file that imports them.
 */
export const load = (name) => import(name)
