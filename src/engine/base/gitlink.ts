/** The attribute of a directory that has the commit of a submodule. */
export const gitlinkAttribute = 'user.git.gitlink'
