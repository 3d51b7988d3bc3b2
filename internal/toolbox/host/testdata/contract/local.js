export const local = 'a file beside'
