// Types that several modules of the page use; those of the API are next to it when it is checked.

/** What `useRef` returns for an element. */
type Ref<T> = { current: T | null };

/** What a template can contain. */
type Content = import("preact").ComponentChildren;

/** An event of an element whose value the user changes. */
type Typed = Event & { currentTarget: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement };
