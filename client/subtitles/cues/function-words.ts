/**
 * Words that decide where a line breaks well. Netflix (Timed Text Style Guide, General Requirements, "Line Treatment")
 * breaks before conjunctions and prepositions, and never separates an article from its noun, a pronoun from its verb or
 * an auxiliary or a negation from its verb. The lists hold the most frequent closed-class words of each language;
 * where a form has several functions ("that", "que"), the one that occurs before a clause decides.
 */
interface FunctionWords {
  /** Conjunctions and prepositions: a line may begin with them and should not end with them. */
  readonly begins: ReadonlySet<string>
  /** Articles, pronouns, auxiliaries and negations: a line should not end with them. */
  readonly leads: ReadonlySet<string>
}

const words = (begins: string, leads: string): FunctionWords => ({
  begins: new Set(begins.match(/\S+/gu)),
  leads: new Set(leads.match(/\S+/gu)),
})

const NONE = words('', '')

const LANGUAGES: Readonly<Record<string, FunctionWords>> = {
  en: words(
    `and or but nor so yet because although though while when where if unless until since that which who whom whose
      as than of in on at by for with without about against between into through during before after above below to
      from under over among around behind beyond near toward towards upon`,
    `a an the my your his her its our their this these those i you he she it we they am is are was were be been have
      has had do does did will would can could shall should may might must not don't doesn't didn't can't won't isn't
      aren't i'm you're he's she's it's we're they're i've you've we've they've`,
  ),
  de: words(
    `und oder aber denn sondern weil dass daß ob wenn als während obwohl damit bevor nachdem bis seit sobald wie wo
      wer was in im an am auf aus bei beim mit nach von vom zu zum zur für durch gegen ohne um über unter vor hinter
      neben zwischen trotz wegen`,
    `der die das den dem des ein eine einen einem einer eines mein meine dein deine sein seine ihr ihre unser unsere
      euer eure kein keine dieser diese dieses ich du er sie es wir bin bist ist sind seid war waren habe hast hat
      haben hatte werde wird werden wurde kann will muss soll darf nicht`,
  ),
  fr: words(
    `et ou mais donc or ni car que qu' qui dont où quand lorsque si comme parce puisque tandis à au aux de du des en
      dans par pour sur sous avec sans chez vers entre contre depuis pendant avant après`,
    `le la les un une mon ma mes ton ta tes son sa ses notre nos votre vos leur leurs ce cet cette ces je tu il elle
      on nous vous ils elles ne pas me te se suis es est sommes êtes sont ai as a avons avez ont était`,
  ),
  es: words(
    `y e o u pero sino ni que quien cual cuando donde como porque aunque si mientras pues a al de del en con sin por
      para sobre entre hasta desde hacia contra según durante tras ante`,
    `el la los las un una unos unas mi mis tu tus su sus nuestro nuestra este esta estos estas ese esa yo tú él ella
      nosotros ellos ellas no me te se lo le les nos soy eres es somos son he has ha hemos han está están`,
  ),
  it: words(
    `e ed o ma però né che chi quando dove come perché anche se mentre quindi a al allo alla ai agli alle di del
      dello della dei degli delle da dal dalla in nel nella nei nelle con su sul sulla per tra fra senza contro dopo
      prima verso`,
    `il lo la i gli le un uno una l' un' mio mia tuo tua suo sua nostro nostra questo questa quello quella io tu lui
      lei noi voi loro non mi ti si ci vi sono sei è siamo siete ho hai ha abbiamo hanno`,
  ),
  pt: words(
    `e ou mas nem que quem quando onde como porque embora se enquanto pois a ao aos à às de do da dos das em no na
      nos nas com sem por pelo pela para sobre entre até desde contra durante após`,
    `o os as um uma uns umas meu minha teu tua seu sua nosso nossa este esta esse essa aquele eu tu ele ela você nós
      eles elas não me te lhe sou é somos são estou está estão tenho tem têm foi`,
  ),
  nl: words(
    `en of maar want dus dat die wie waar omdat als toen terwijl hoewel tot voordat nadat zodat aan bij in met naar
      op over uit van voor door tegen zonder om onder tussen achter naast boven`,
    `de het een mijn jouw zijn haar ons onze hun dit deze ik jij je hij zij ze wij we jullie ben bent is was waren
      heb hebt heeft hebben had zal zullen kan kunnen moet wil niet geen`,
  ),
  sv: words(
    `och eller men utan för att som när där om medan eftersom innan i på av till från med vid under över mellan mot
      efter före genom hos`,
    `en ett den det de min din sin vår er jag du han hon vi ni är var har hade ska kan vill inte`,
  ),
  da: words(
    `og eller men for at som når hvor hvis mens fordi før i på af til fra med ved under over mellem mod efter gennem
      hos om`,
    `en et den det de min din sin vores jeg du han hun vi er var har havde skal kan vil ikke`,
  ),
  pl: words(
    `i oraz lub albo ale lecz że żeby bo ponieważ kiedy gdy gdzie jeśli który która które jak w we na z ze do od po
      przy przez dla bez o u nad pod przed za między`,
    `mój moja twój jego jej nasz ten ta to ja ty on ona my wy oni nie się jest są był była`,
  ),
  ru: words(
    `и или но а что чтобы потому когда где если который которая которые как в во на с со к ко от из по за для без о
      об у над под перед через между до после при`,
    `мой моя твой его её наш этот эта это я ты он она мы вы они не бы был была было были`,
  ),
}

/** Returns the lists of a language; empty ones if it has none. */
export function functionWords(language: string): FunctionWords {
  return LANGUAGES[language] ?? NONE
}
