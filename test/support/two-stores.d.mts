export function twoStores(product: object, where: object): unknown;
